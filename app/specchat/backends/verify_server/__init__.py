"""A target behind `specchat serve`."""
