// Package schedulerconfig reads the configuration files of upstream's kube-scheduler into profiles: a
// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), the file of its --config, by Open:
//
//	apiVersion: kubescheduler.config.k8s.io/v1
//	kind: KubeSchedulerConfiguration
//	profiles:
//	- schedulerName: default-scheduler
//	- schedulerName: packing
//	  pluginConfig:
//	  - name: NodeResourcesFit
//	    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
//
// and the older Policy (v1), the file of its --policy-config-file, by OpenPolicy.
//
// Defaults, rules and messages are upstream's. Every field is acted on, or refused with what happens instead:
//
//   - percentageOfNodesToScore may be 0 or 100: all nodes are considered for every pod;
//   - parallelism is how many writes, such as bindings and deletions of victims, are under way at a time; decisions, which
//     do not depend on it, are made one after the other;
//   - delayCacheUntilActive must not be false: only the process that holds the lease watches the cluster;
//   - enableProfiling and enableContentionProfiling must not be true;
//   - plugins have one order, which must be that of all extension points but score, where it has no effect, and preFilter
//     and preScore, where it is that of filter and score; filter needs preFilter, score needs preScore, and the preBind of
//     VolumeBinding and DynamicResources their reserve and the reverse;
//   - the times that VolumeBinding and DynamicResources wait must be the same in all profiles that give them.
//
// # Errors
//
// Every error is an *Error, or several joined, and names file, line and field.
package schedulerconfig
