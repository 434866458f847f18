// Package upkeep keeps upstream's default FlowSchemas and PriorityLevelConfigurations in a registry, as every API server
// does, and the condition Dangling of all FlowSchemas, which says whether their priority level exists.
//
// The mandatory objects are restored when they are changed or deleted. The suggested ones are created, too, but the
// annotation apf.kubernetes.io/autoupdate-spec says whether their specs are: an administrator who wants another spec
// sets it to false. Objects that carry the annotation and that this version does not know are removed.
//
// Errors of the registry are logged and retried. An Upkeep has no goroutines but the one that runs it.
package upkeep
