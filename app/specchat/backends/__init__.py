"""Whatever answers: models on this computer, verify servers, engines that score, plain chat servers."""
