package disruption

// The pure parts, for tables.
var (
	Awaited    = awaited
	Healthy    = healthy
	UntilStale = untilStale
)
