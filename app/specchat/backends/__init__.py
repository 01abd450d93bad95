"""Whatever answers: models on this computer, verify servers, engines that score, chat servers."""
