"""Chinese shops group digits by three, as browsers do; Django's default for zh_Hans is groups of four."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
