"""What HTTP services share: problems, tokens, pages, headers, template tags, static files, translations."""
