package controllermanager

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/devicetainteviction"
	"github.com/keelson-dev/keelson/controllers/ephemeral"
	"github.com/keelson-dev/keelson/controllers/resourceclaim"
	"github.com/keelson-dev/keelson/controllers/vacprotection"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newEphemeral(p *component.Parts) (lifecycle.Runnable, error) {
	in := ephemeral.Sources{
		Pods:   component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Claims: component.Informer[*corev1.PersistentVolumeClaim](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(ephemeral.New(in, p.Client, p.Recorder)), nil
}

func newResourceClaim(p *component.Parts) (lifecycle.Runnable, error) {
	in := resourceclaim.Sources{
		Pods:      component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Claims:    component.Informer[*resourcev1.ResourceClaim](p.Informers, resourcev1.SchemeGroupVersion.WithResource("resourceclaims")),
		Templates: component.Informer[*resourcev1.ResourceClaimTemplate](p.Informers, resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(resourceclaim.New(in, p.Client, p.Recorder)), nil
}

func newDeviceTaintEviction(p *component.Parts) (lifecycle.Runnable, error) {
	in := devicetainteviction.Sources{
		Pods:   component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Claims: component.Informer[*resourcev1.ResourceClaim](p.Informers, resourcev1.SchemeGroupVersion.WithResource("resourceclaims")),
		Slices: component.Informer[*resourcev1.ResourceSlice](p.Informers, resourcev1.SchemeGroupVersion.WithResource("resourceslices")),
		Rules:  component.Informer[*resourcev1.DeviceTaintRule](p.Informers, resourcev1.SchemeGroupVersion.WithResource("devicetaintrules")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(devicetainteviction.New(in, p.Client, p.Recorder)), nil
}

func newVACProtection(p *component.Parts) (lifecycle.Runnable, error) {
	in := vacprotection.Sources{
		Classes: component.Informer[*storagev1.VolumeAttributesClass](p.Informers, storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses")),
		Volumes: component.Informer[*corev1.PersistentVolume](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumes")),
		Claims:  component.Informer[*corev1.PersistentVolumeClaim](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(vacprotection.New(in, p.Client)), nil
}
