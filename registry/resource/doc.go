// Package resource has the kinds of the API group resource.k8s.io, the devices of dynamic resource allocation: DeviceClass,
// DeviceTaintRule, ResourceClaim, ResourceClaimTemplate and ResourceSlice.
//
// Selectors have expressions in CEL, which Options.Compile checks: package selectors does. Without it, objects with an
// expression are refused. Fields of features that upstream has off by default are dropped, unless a stored object has them.
package resource
