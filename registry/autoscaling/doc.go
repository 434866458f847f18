// Package autoscaling has the kinds of the API group autoscaling: HorizontalPodAutoscaler, which is stored in v2 and also
// served in v1, where annotations carry what that version has no fields for. Its rules and messages are those of Kubernetes
// 1.37. (Scale, of the same group, is a subresource of the kinds that can be scaled.) A Kind is data without state, safe for
// concurrent use.
package autoscaling
