package customresourcedefinition

// The pure decisions, for tables.
var (
	AcceptNames   = acceptNames
	Approve       = approve
	JudgeSchemas  = judgeSchemas
	Establishment = establishment
	Readable      = readable
	Alike         = alike
)
