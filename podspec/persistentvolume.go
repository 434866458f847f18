package podspec

import (
	"fmt"
	"path"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePersistentVolume validates a new volume except its metadata.
func ValidatePersistentVolume(pv *corev1.PersistentVolume) field.ErrorList {
	var r report
	r.persistentVolume(pv, false)
	r.mountOptions(pv)
	return r.errs
}

// ValidatePersistentVolumeUpdate validates an update of a volume. Errors of the new spec are listed twice, as the API
// server does.
func ValidatePersistentVolumeUpdate(pv, old *corev1.PersistentVolume) field.ErrorList {
	var r report
	anyValue := old.Spec.NodeAffinity != nil && hasInvalidValue(old.Spec.NodeAffinity.Required)
	r.persistentVolume(pv, anyValue)
	r.mountOptions(pv)
	r.persistentVolume(pv, anyValue)
	r.persistentVolumeChange(&pv.Spec, &old.Spec)
	return r.errs
}

func (r *report) persistentVolumeChange(spec, old *corev1.PersistentVolumeSpec) {
	p := field.NewPath("spec")
	source := spec.PersistentVolumeSource
	if source.CSI != nil && old.CSI != nil && old.CSI.ControllerExpandSecretRef == nil {
		csi := *source.CSI
		csi.ControllerExpandSecretRef = nil // it may be set once
		source.CSI = &csi
	}
	if !equality.Semantic.DeepEqual(source, old.PersistentVolumeSource) {
		r.forbidden(p.Child("persistentvolumesource"), fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v",
			diff.Diff(asInternal(old.PersistentVolumeSource), asInternal(source))))
	}
	r.add(apivalidation.ValidateImmutableField(spec.VolumeMode, old.VolumeMode, field.NewPath("volumeMode"))...)
	if old.NodeAffinity != nil && !sameNodes(spec.NodeAffinity, old.NodeAffinity) {
		r.invalid(field.NewPath("nodeAffinity"), asInternal(spec.NodeAffinity),
			apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA")
	}
	if old.VolumeAttributesClassName != nil && spec.VolumeAttributesClassName == nil {
		r.forbidden(p.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden")
	}
}

// sameNodes reports whether a node affinity differs from the old one at most in labels that replace beta labels.
func sameNodes(now, old *corev1.VolumeNodeAffinity) bool {
	replaced := map[string]string{
		corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
		corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
		"beta.kubernetes.io/os":             corev1.LabelOSStable,
		"beta.kubernetes.io/arch":           corev1.LabelArchStable,
		corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
	}
	if now == nil || now.Required == nil || old.Required == nil {
		return equality.Semantic.DeepEqual(now, old)
	}
	before := old.DeepCopy()
	follow := func(now, before []corev1.NodeSelectorRequirement) {
		for i := range min(len(now), len(before)) {
			if key, beta := replaced[before[i].Key]; beta && now[i].Key == key {
				before[i].Key = key
			}
		}
	}
	for i := range min(len(now.Required.NodeSelectorTerms), len(before.Required.NodeSelectorTerms)) {
		a, b := &now.Required.NodeSelectorTerms[i], &before.Required.NodeSelectorTerms[i]
		follow(a.MatchExpressions, b.MatchExpressions)
		follow(a.MatchFields, b.MatchFields)
	}
	return equality.Semantic.DeepEqual(now, before)
}

func (r *report) persistentVolume(pv *corev1.PersistentVolume, anyValue bool) {
	spec, p := &pv.Spec, field.NewPath("spec")
	if len(spec.AccessModes) == 0 {
		r.required(p.Child("accessModes"), "")
	}
	r.accessModes(spec.AccessModes, p.Child("accessModes"))
	r.volumeCapacity(spec.Capacity, p.Child("capacity"))
	if policy := spec.PersistentVolumeReclaimPolicy; policy != "" {
		oneOf(r, p.Child("persistentVolumeReclaimPolicy"), policy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	if spec.NodeAffinity != nil {
		if required := spec.NodeAffinity.Required; required != nil {
			r.nodeSelector(required, p.Child("nodeAffinity", "required"), anyValue)
		} else {
			r.required(p.Child("nodeAffinity", "required"), "must specify required node constraints")
		}
	}
	r.persistentSource(pv, p)
	if spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		r.forbidden(p.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'")
	}
	if spec.StorageClassName != "" {
		r.name(p.Child("storageClassName"), spec.StorageClassName, false)
	}
	if spec.VolumeMode != nil {
		oneOf(r, p.Child("volumeMode"), *spec.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	r.attributesClass(spec, p)
}

func (r *report) volumeCapacity(capacity corev1.ResourceList, p *field.Path) {
	if len(capacity) == 0 {
		r.required(p, "")
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		r.add(field.NotSupported(p, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range sorted(capacity) {
		q := capacity[name]
		r.basicQuantity(q.Value(), p.Key(string(name)))
		if q.Sign() <= 0 {
			r.invalid(p.Key(string(name)), q.String(), notPositive)
		}
	}
}

// basicQuantity rejects a negative whole value.
func (r *report) basicQuantity(value int64, p *field.Path) {
	if value < 0 {
		r.invalid(p, value, "must be a valid resource quantity")
	}
}

func (r *report) attributesClass(spec *corev1.PersistentVolumeSpec, p *field.Path) {
	class := spec.VolumeAttributesClassName
	if class == nil {
		return
	}
	if *class == "" {
		r.required(p.Child("volumeAttributesClassName"), "an empty string is disallowed")
	} else {
		r.name(p.Child("volumeAttributesClassName"), *class, false)
	}
	if spec.CSI == nil {
		r.required(p.Child("csi"), "has to be specified when using volumeAttributesClassName")
	}
}

// persistentSource checks that a volume is of exactly one valid kind.
func (r *report) persistentSource(pv *corev1.PersistentVolume, p *field.Path) {
	spec, found := &pv.Spec, false
	for _, rule := range slices.Concat(r.oldSources(spec), r.persistentNetworks(pv), r.persistentDisks(spec)) {
		switch {
		case !rule.used:
		case found && rule.name != "flexVolume": // the API server does not count it
			r.forbidden(p.Child(conflictName(rule.name)), moreThanOneKind)
		default:
			found = true
			rule.check(p.Child(detailName(rule.name)))
			if rule.name == "local" && spec.NodeAffinity == nil {
				r.required(p.Child("nodeAffinity"), "Local volume requires node affinity")
			}
		}
	}
	if !found {
		r.required(p, "must specify a volume type")
	}
}

// The kinds of volumes are in the order in which the API server reports them.

func (r *report) oldSources(s *corev1.PersistentVolumeSpec) []sourceRule {
	return []sourceRule{
		{"hostPath", s.HostPath != nil, func(p *field.Path) { r.hostPath(s.HostPath, p) }},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, func(p *field.Path) {
			r.disk(p.Child("pdName"), s.GCEPersistentDisk.PDName, p.Child("partition"), s.GCEPersistentDisk.Partition)
		}},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, func(p *field.Path) {
			r.disk(p.Child("volumeID"), s.AWSElasticBlockStore.VolumeID, p.Child("partition"), s.AWSElasticBlockStore.Partition)
		}},
		{"glusterfs", s.Glusterfs != nil, func(p *field.Path) {
			r.need(p.Child("endpoints"), s.Glusterfs.EndpointsName)
			r.need(p.Child("path"), s.Glusterfs.Path)
			r.endpointsNamespace(s.Glusterfs.EndpointsNamespace, p.Child("endpointsNamespace"))
		}},
		{"flocker", s.Flocker != nil, func(p *field.Path) { r.flocker(s.Flocker, p) }},
		{"nfs", s.NFS != nil, func(p *field.Path) { r.nfs(s.NFS, p) }},
		{"rbd", s.RBD != nil, func(p *field.Path) {
			if len(s.RBD.CephMonitors) == 0 {
				r.required(p.Child("monitors"), "")
			}
			r.need(p.Child("image"), s.RBD.RBDImage)
		}},
		{"quobyte", s.Quobyte != nil, func(p *field.Path) { r.quobyte(s.Quobyte, p) }},
	}
}

func (r *report) persistentNetworks(pv *corev1.PersistentVolume) []sourceRule {
	s := &pv.Spec
	return []sourceRule{
		{"cephfs", s.CephFS != nil, func(p *field.Path) {
			if len(s.CephFS.Monitors) == 0 {
				r.required(p.Child("monitors"), "")
			}
		}},
		{"iscsi", s.ISCSI != nil, func(p *field.Path) { r.persistentISCSI(s.ISCSI, pv.Name, p) }},
		{"cinder", s.Cinder != nil, func(p *field.Path) {
			r.need(p.Child("volumeID"), s.Cinder.VolumeID)
			r.foreignSecret(p.Child("secretRef"), s.Cinder.SecretRef)
		}},
		{"fc", s.FC != nil, func(p *field.Path) { r.fibreChannel(s.FC, p) }},
		{"flexVolume", s.FlexVolume != nil, func(p *field.Path) { r.flexVolume(s.FlexVolume.Driver, s.FlexVolume.Options, p) }},
		{"azureFile", s.AzureFile != nil, func(p *field.Path) {
			r.azureFile(s.AzureFile.SecretName, s.AzureFile.ShareName, p)
			if namespace := s.AzureFile.SecretNamespace; namespace != nil {
				r.need(p.Child("secretNamespace"), *namespace)
			}
		}},
	}
}

func (r *report) persistentDisks(s *corev1.PersistentVolumeSpec) []sourceRule {
	return []sourceRule{
		{"vsphereVolume", s.VsphereVolume != nil, func(p *field.Path) { r.need(p.Child("volumePath"), s.VsphereVolume.VolumePath) }},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, func(p *field.Path) { r.need(p.Child("pdID"), s.PhotonPersistentDisk.PdID) }},
		{"portworxVolume", s.PortworxVolume != nil, func(p *field.Path) { r.need(p.Child("volumeID"), s.PortworxVolume.VolumeID) }},
		{"azureDisk", s.AzureDisk != nil, func(p *field.Path) { r.azureDisk(s.AzureDisk, p) }},
		{"scaleIO", s.ScaleIO != nil, func(p *field.Path) { r.scaleIO(s.ScaleIO.Gateway, s.ScaleIO.System, s.ScaleIO.VolumeName, p) }},
		{"local", s.Local != nil, func(p *field.Path) {
			if r.need(p.Child("path"), s.Local.Path) {
				r.noBacksteps(p.Child("path"), s.Local.Path)
			}
		}},
		{"storageos", s.StorageOS != nil, func(p *field.Path) {
			r.storageOS(s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, p)
			if ref := s.StorageOS.SecretRef; ref != nil {
				r.need(p.Child("secretRef", "name"), ref.Name)
				r.need(p.Child("secretRef", "namespace"), ref.Namespace)
			}
		}},
		{"csi", s.CSI != nil, func(p *field.Path) { r.persistentCSI(s.CSI, p) }},
	}
}

func (r *report) endpointsNamespace(namespace *string, p *field.Path) {
	switch {
	case namespace == nil:
	case *namespace == "":
		r.invalid(p, *namespace, "if the endpointnamespace is set, it must be a valid namespace name")
	default:
		r.invalid(p, *namespace, apivalidation.ValidateNamespaceName(*namespace, false)...)
	}
}

func (r *report) foreignSecret(p *field.Path, ref *corev1.SecretReference) {
	if ref != nil {
		r.need(p.Child("name"), ref.Name)
		r.need(p.Child("namespace"), ref.Namespace)
	}
}

func (r *report) persistentISCSI(s *corev1.ISCSIPersistentVolumeSource, volume string, p *field.Path) {
	r.need(p.Child("targetPortal"), s.TargetPortal)
	if s.InitiatorName != nil && len(volume+":"+s.TargetPortal) > 64 {
		r.invalid(p.Child("targetportal"), s.TargetPortal, iscsiTooLong)
	}
	if r.need(p.Child("iqn"), s.IQN) {
		r.iscsiName(p.Child("iqn"), s.IQN, iscsiFormat)
	}
	r.iscsiAccess(s.Lun, s.DiscoveryCHAPAuth || s.SessionCHAPAuth, s.SecretRef != nil, p)
	if s.SecretRef != nil {
		r.need(p.Child("secretRef", "name"), s.SecretRef.Name)
	}
	if s.InitiatorName != nil {
		r.iscsiName(p.Child("initiatorname"), *s.InitiatorName, iscsiFormat)
	}
}

func (r *report) persistentCSI(s *corev1.CSIPersistentVolumeSource, p *field.Path) {
	r.driverName(p.Child("driver"), s.Driver)
	r.need(p.Child("volumeHandle"), s.VolumeHandle)
	for _, secret := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", s.ControllerPublishSecretRef}, {"controllerExpandSecretRef", s.ControllerExpandSecretRef},
		{"nodePublishSecretRef", s.NodePublishSecretRef}, {"nodeExpandSecretRef", s.NodeExpandSecretRef},
	} {
		if secret.ref == nil {
			continue
		}
		at := p.Child(secret.name)
		if r.need(at.Child("name"), secret.ref.Name) {
			r.subdomain(at.Child("name"), secret.ref.Name)
		}
		if r.need(at.Child("namespace"), secret.ref.Namespace) {
			r.label(at.Child("namespace"), secret.ref.Namespace)
		}
	}
}

// mountOptions rejects the annotation with mount options on volumes that are not mounted with any.
func (r *report) mountOptions(pv *corev1.PersistentVolume) {
	if _, given := pv.Annotations[corev1.MountOptionAnnotation]; !given {
		return
	}
	s := pv.Spec.PersistentVolumeSource
	// What is left without those that are: another kind or none.
	rest := corev1.PersistentVolumeSource{
		HostPath: s.HostPath, FC: s.FC, Flocker: s.Flocker, FlexVolume: s.FlexVolume, PortworxVolume: s.PortworxVolume,
		ScaleIO: s.ScaleIO, Local: s.Local, StorageOS: s.StorageOS, CSI: s.CSI,
	}
	if reflect.DeepEqual(rest, s) {
		r.forbidden(field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation), "may not specify mount options for this volume type")
	}
}
