package controllermanager

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/attachdetach"
	"github.com/keelson-dev/keelson/controllers/pvbinder"
	"github.com/keelson-dev/keelson/controllers/pvcprotection"
	"github.com/keelson-dev/keelson/controllers/pvprotection"
	"github.com/keelson-dev/keelson/controllers/volumeexpand"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newPVBinder(p *component.Parts) (lifecycle.Runnable, error) {
	in := pvbinder.Sources{
		Volumes: persistentVolumes(p),
		Claims:  claims(p),
		Pods:    component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Classes: component.Informer[*storagev1.StorageClass](p.Informers, storagev1.SchemeGroupVersion.WithResource("storageclasses")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(pvbinder.New(in, p.Client, p.Recorder, pvbinder.Options{})), nil
}

func newAttachDetach(p *component.Parts) (lifecycle.Runnable, error) {
	in := attachdetach.Sources{
		Pods:        component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Nodes:       component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
		Claims:      claims(p),
		Volumes:     persistentVolumes(p),
		Drivers:     component.Informer[*storagev1.CSIDriver](p.Informers, storagev1.SchemeGroupVersion.WithResource("csidrivers")),
		Attachments: component.Informer[*storagev1.VolumeAttachment](p.Informers, storagev1.SchemeGroupVersion.WithResource("volumeattachments")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(attachdetach.New(in, p.Client, p.Recorder)), nil
}

func newVolumeExpand(p *component.Parts) (lifecycle.Runnable, error) {
	claims := claims(p)
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(volumeexpand.New(claims, p.Client, p.Recorder)), nil
}

func newPVCProtection(p *component.Parts) (lifecycle.Runnable, error) {
	in := pvcprotection.Sources{
		Claims: claims(p),
		Pods:   component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(pvcprotection.New(in, p.Client)), nil
}

func newPVProtection(p *component.Parts) (lifecycle.Runnable, error) {
	volumes := persistentVolumes(p)
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(pvprotection.New(volumes, p.Client)), nil
}

func persistentVolumes(p *component.Parts) *informer.Informer[*corev1.PersistentVolume] {
	return component.Informer[*corev1.PersistentVolume](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumes"))
}

func claims(p *component.Parts) *informer.Informer[*corev1.PersistentVolumeClaim] {
	return component.Informer[*corev1.PersistentVolumeClaim](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"))
}
