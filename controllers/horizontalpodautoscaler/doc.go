// Package horizontalpodautoscaler is the horizontal-pod-autoscaler-controller: it scales what HorizontalPodAutoscalers
// target, so that metrics stay at their targets.
//
// Each autoscaler is evaluated every 15 s, and at once when its spec changes. The number of replicas that a metric asks for
// follows from the ratio of its value to its target; the largest of all metrics counts, limited by how far and how fast the
// autoscaler may scale. What was recommended and done before is known to the controller only since its start. Metrics is
// where values come from: APIs reads them from metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io.
//
// A failure is reported as a condition and an event of the autoscaler, and logged; the next evaluation tries again, 15 s
// later. A Controller may reconcile different autoscalers concurrently.
package horizontalpodautoscaler
