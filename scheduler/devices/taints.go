package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
)

// withTaints returns slices whose devices have the taints of rules, too. Slices that no rule is about are the same.
func withTaints(slices []*resourcev1.ResourceSlice, rules []*resourcev1.DeviceTaintRule) []*resourcev1.ResourceSlice {
	all := make([]*resourcev1.ResourceSlice, len(slices))
	for i, slice := range slices {
		tainted := slice
		for _, rule := range rules {
			of := rule.Spec.DeviceSelector
			if of == nil || other(of.Driver, slice.Spec.Driver) || other(of.Pool, slice.Spec.Pool.Name) {
				continue
			}
			for j := range slice.Spec.Devices {
				if other(of.Device, slice.Spec.Devices[j].Name) {
					continue
				}
				if tainted == slice {
					tainted = slice.DeepCopy()
				}
				device := &tainted.Spec.Devices[j]
				device.Taints = append(device.Taints, rule.Spec.Taint)
			}
		}
		all[i] = tainted
	}
	return all
}

// other reports whether a rule is restricted to another name.
func other(only *string, name string) bool { return only != nil && *only != name }
