package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *validator) mounts(c *corev1.Container, p *field.Path) {
	deviceNames, devicePaths := map[string]string{}, map[string]bool{}
	for _, d := range c.VolumeDevices {
		deviceNames[d.Name] = d.DevicePath
	}
	for _, path := range deviceNames {
		devicePaths[path] = true
	}
	taken := map[string]bool{}
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], p.Index(i)
		v.need(at.Child("name"), m.Name)
		volume := v.volumes[m.Name]
		if volume == nil {
			v.notFound(at.Child("name"), m.Name)
		}
		v.need(at.Child("mountPath"), m.MountPath)
		if taken[m.MountPath] {
			v.invalid(at.Child("mountPath"), m.MountPath, "must be unique")
		}
		taken[m.MountPath] = true
		if _, ok := deviceNames[m.Name]; ok {
			v.invalid(at.Child("name"), m.Name, "must not already exist in volumeDevices")
		}
		if devicePaths[m.MountPath] {
			v.invalid(at.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices")
		}
		v.subPaths(m, p, at)
		v.propagation(m, c, p.Child("mountPropagation"))
		v.recursiveReadOnly(m, p.Child("recursiveReadOnly"))
		v.mountOptions(m, volume, at.Child("bindMountOptions"))
	}
}

// subPaths reports some fields without the index of the mount, like the API server.
func (v *validator) subPaths(m *corev1.VolumeMount, p, at *field.Path) {
	if m.SubPath != "" {
		v.descendingPath(p.Child("subPath"), m.SubPath)
	}
	if m.SubPathExpr == "" {
		return
	}
	if m.SubPath != "" {
		v.invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
	}
	v.descendingPath(p.Child("subPathExpr"), m.SubPathExpr)
}

func (v *validator) propagation(m *corev1.VolumeMount, c *corev1.Container, p *field.Path) {
	if m.MountPropagation == nil {
		return
	}
	oneOf(&v.report, p, *m.MountPropagation,
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	if *m.MountPropagation == corev1.MountPropagationBidirectional && !privileged {
		v.forbidden(p, "Bidirectional mount propagation is available only to privileged containers")
	}
}

func (v *validator) recursiveReadOnly(m *corev1.VolumeMount, p *field.Path) {
	if m.RecursiveReadOnly == nil {
		return
	}
	mode := *m.RecursiveReadOnly
	oneOf(&v.report, p, mode,
		corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
	if mode != corev1.RecursiveReadOnlyEnabled && mode != corev1.RecursiveReadOnlyIfPossible {
		return
	}
	if !m.ReadOnly {
		v.forbidden(p, "may only be specified when readOnly is true")
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		v.forbidden(p, "may only be specified when mountPropagation is None or not specified")
	}
}

func (v *validator) mountOptions(m *corev1.VolumeMount, volume *corev1.VolumeSource, p *field.Path) {
	if len(m.BindMountOptions) == 0 {
		return
	}
	seen := map[string]bool{}
	for i, option := range m.BindMountOptions {
		oneOf(&v.report, p.Index(i), option,
			string(corev1.BindMountOptionNoDev), string(corev1.BindMountOptionNoExec), string(corev1.BindMountOptionNoSUID))
		if seen[option] {
			v.duplicate(p.Index(i), option)
		}
		seen[option] = true
	}
	if volume != nil && volume.Image != nil {
		v.invalid(p, m.BindMountOptions, "bindMountOptions may not be used with image volumes")
	}
}

func (v *validator) devices(c *corev1.Container, p *field.Path) {
	mountNames, mountPaths := map[string]string{}, map[string]bool{}
	for _, m := range c.VolumeMounts {
		mountNames[m.Name] = m.MountPath
	}
	for _, path := range mountNames {
		mountPaths[path] = true
	}
	names, paths := map[string]bool{}, map[string]bool{}
	for i, d := range c.VolumeDevices {
		name, path := p.Index(i).Child("name"), p.Index(i).Child("devicePath")
		v.need(name, d.Name)
		if names[d.Name] {
			v.invalid(name, d.Name, "must be unique")
		}
		v.deviceVolume(name, d.Name)
		v.need(path, d.DevicePath)
		if paths[d.DevicePath] {
			v.invalid(path, d.DevicePath, "must be unique")
		}
		if hasBacksteps(d.DevicePath) {
			v.invalid(path, d.DevicePath, "can not contain backsteps ('..')")
		} else {
			paths[d.DevicePath] = true
		}
		if _, ok := mountNames[d.Name]; ok {
			v.invalid(name, d.Name, "must not already exist in volumeMounts")
		}
		if mountPaths[d.DevicePath] {
			v.invalid(path, d.DevicePath, "must not already exist as a path in volumeMounts")
		}
		if d.Name != "" {
			names[d.Name] = true
		}
	}
}

// deviceVolume checks that a block device comes from a claim.
func (v *validator) deviceVolume(p *field.Path, name string) {
	switch volume := v.volumes[name]; {
	case volume == nil:
		v.notFound(p, name)
	case volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil:
		v.invalid(p, name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
	}
}
