// Package resourcemetrics lets a cluster serve metrics.k8s.io, as metrics-server does upstream: what nodes and pods use, for
// kubectl top and for HorizontalPodAutoscalers.
//
//	c, err := cluster.Start(ctx, cluster.Options{Extensions: []cluster.Extension{resourcemetrics.Extension(resourcemetrics.Options{})}})
//
// The kubelets are asked at each read. What the containers of simulated nodes use is scripted by simulated.Program. Nodes
// that do not answer are missing, with their pods. A node is missing from the first answer, too, but not its pods: the rate
// of its CPU follows from two readings. The extension is safe for concurrent use.
package resourcemetrics
