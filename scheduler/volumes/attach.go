package volumes

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/utils/ptr"
)

// Attached are drivers' volumes: the name of the driver by the volume's identity.
type Attached map[string]string

func (a Attached) add(driver, handle string) { a[driver+"/"+handle] = driver }

// Limits returns how many volumes of each driver a node can have, for those that have a limit there.
func (v *Volumes) Limits(node string) map[string]int {
	limits := map[string]int{}
	if csi := v.csiNode(node); csi != nil {
		for _, d := range csi.Spec.Drivers {
			if d.Allocatable != nil && d.Allocatable.Count != nil {
				limits[d.Name] = int(*d.Allocatable.Count)
			}
		}
	}
	return limits
}

// Installed reports whether a driver runs on a node, as far as its CSIDriver cares.
func (v *Volumes) Installed(driver, node string) bool {
	d, ok := v.in.CSIDrivers.Get("", driver)
	if !ok || !ptr.Deref(d.Spec.PreventPodSchedulingIfMissing, false) {
		return true
	}
	if csi := v.csiNode(node); csi != nil {
		for _, d := range csi.Spec.Drivers {
			if d.Name == driver {
				return true
			}
		}
	}
	return false
}

// AddOf adds the CSI volumes that a pod has on a node. A claim that does not exist is an error if the pod is yet to be
// scheduled.
func (v *Volumes) AddOf(pod *corev1.Pod, node string, scheduled bool, to Attached) error {
	var csi *storagev1.CSINode
	known := false
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil && !Inline(volume) {
			continue
		}
		if !known {
			csi, known = v.csiNode(node), true
		}
		if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil {
			if err := addInline(pod.Namespace, volume, csi, to); err != nil {
				return err
			}
			continue
		}
		name, own := ClaimOf(pod, volume)
		if name == "" {
			return errors.New("PersistentVolumeClaim had no name")
		}
		claim, err := v.Claim(pod.Namespace, name)
		switch {
		case err != nil && scheduled:
			continue
		case err != nil:
			return fmt.Errorf("looking up PVC %s/%s: %w", pod.Namespace, name, err)
		case own:
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return err
			}
		}
		if driver, handle := v.driverOf(claim, csi); driver != "" && handle != "" {
			to.add(driver, handle)
		}
	}
	return nil
}

// addInline adds a volume without a claim of a former plugin that its CSI driver has replaced.
func addInline(namespace string, volume *corev1.Volume, csi *storagev1.CSINode, to Attached) error {
	translator := csitranslation.New()
	plugin, err := translator.GetInTreePluginNameFromSpec(nil, volume)
	if err != nil {
		return fmt.Errorf("looking up provisioner name for volume %s: %w", volume.Name, err)
	}
	if csi == nil || !replaced(plugin) {
		return nil
	}
	pv, err := translatedInline(namespace, volume)
	if err != nil {
		return err
	}
	driver, err := translator.GetCSINameFromInTreeName(plugin)
	if err != nil {
		return fmt.Errorf("looking up CSI driver name for provisioner %s: %w", plugin, err)
	}
	if pv.Spec.CSI != nil {
		to.add(driver, pv.Spec.CSI.VolumeHandle)
	}
	return nil
}

// driverOf returns the CSI driver and the handle of a claim's volume; both are "" if it is not a driver's. A claim
// without a volume counts as one with a volume of its class.
func (v *Volumes) driverOf(claim *corev1.PersistentVolumeClaim, csi *storagev1.CSINode) (driver, handle string) {
	pv, err := v.Volume(claim.Spec.VolumeName)
	switch {
	case claim.Spec.VolumeName == "" || err != nil:
		return v.driverOfClass(claim, csi)
	case pv.Spec.CSI != nil:
		return pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle
	case csi == nil || replaceable(pv) == "":
		return "", ""
	}
	if pv, err = translated(pv); err != nil || pv.Spec.CSI == nil {
		return "", ""
	}
	return pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle
}

func (v *Volumes) driverOfClass(claim *corev1.PersistentVolumeClaim, csi *storagev1.CSINode) (driver, handle string) {
	class, err := v.Class(ClassOf(claim))
	if err != nil {
		return "", ""
	}
	driver = class.Provisioner
	if translator := csitranslation.New(); translator.IsMigratableIntreePluginByName(driver) {
		if csi == nil || !replaced(driver) {
			return "", ""
		}
		if driver, err = translator.GetCSINameFromInTreeName(driver); err != nil {
			return "", ""
		}
	}
	return driver, "\x00" + nameOf(claim).String() // which no volume has
}

// AddAttached adds the CSI volumes that are attached to a node according to the API, whether a pod has them or not.
func (v *Volumes) AddAttached(node string, to Attached) {
	for _, a := range v.in.Attachments.ByIndex(byNode, node) {
		if a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if pv, err := v.Volume(*a.Spec.Source.PersistentVolumeName); err == nil && pv.Spec.CSI != nil {
			to.add(a.Spec.Attacher, pv.Spec.CSI.VolumeHandle)
		}
	}
}
