"""Models and profiles: what is known, what is on this computer, and how the rest is fetched."""
