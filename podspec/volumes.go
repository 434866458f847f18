package podspec

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// allVolumes validates the volumes and records the valid ones for checking mounts.
func (v *validator) allVolumes(p *field.Path) {
	claimOf := map[string]bool{}
	if v.meta != nil && v.meta.Name != "" {
		for i := range v.spec.Volumes {
			if v.spec.Volumes[i].Ephemeral != nil {
				claimOf[v.meta.Name+"-"+v.spec.Volumes[i].Name] = true
			}
		}
	}
	v.volumes = make(map[string]*corev1.VolumeSource, len(v.spec.Volumes))
	for i := range v.spec.Volumes {
		vol, at := &v.spec.Volumes[i], p.Index(i)
		before := len(v.errs)
		v.volumeSource(vol, at)
		if v.need(at.Child("name"), vol.Name) {
			v.label(at.Child("name"), vol.Name)
		}
		if _, taken := v.volumes[vol.Name]; taken {
			v.duplicate(at.Child("name"), vol.Name)
		}
		if len(v.errs) == before {
			v.volumes[vol.Name] = &vol.VolumeSource
		}
		if c := vol.PersistentVolumeClaim; c != nil && claimOf[c.ClaimName] {
			v.invalid(at.Child("persistentVolumeClaim", "claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

const moreThanOneKind = "may not specify more than 1 volume type"

// sourceRule describes a kind of volume: whether it is used, and its rules.
type sourceRule struct {
	name  string
	used  bool
	check func(*field.Path)
}

// volumeSource checks that a volume is of exactly one valid kind.
func (v *validator) volumeSource(vol *corev1.Volume, p *field.Path) {
	found := false
	for _, rule := range slices.Concat(v.localSources(vol), v.networkSources(vol), v.apiSources(vol), v.diskSources(vol), v.lateSources(vol)) {
		switch {
		case !rule.used:
		case found:
			v.forbidden(p.Child(conflictName(rule.name)), moreThanOneKind)
		default:
			found = true
			rule.check(p.Child(detailName(rule.name)))
			if rule.name == "ephemeral" {
				v.claimName(vol, p.Child("name"))
			}
		}
		if rule.used && rule.name == "iscsi" {
			v.iscsiNameLength(vol, p)
		}
	}
	if !found {
		v.required(p, "must specify a volume type")
	}
}

// conflictName and detailName return the few field names that the API server's messages spell differently.
func conflictName(name string) string {
	switch name {
	case "cephfs":
		return "cephFS"
	case "downwardAPI":
		return "downwarAPI"
	}
	return name
}

func detailName(name string) string {
	if name == "gcePersistentDisk" {
		return "persistentDisk"
	}
	return name
}

// The kinds of volumes are in the order in which the API server reports them.

func (v *validator) localSources(vol *corev1.Volume) []sourceRule {
	s := &vol.VolumeSource
	return []sourceRule{
		{"emptyDir", s.EmptyDir != nil, func(p *field.Path) { v.emptyDir(s.EmptyDir, p) }},
		{"hostPath", s.HostPath != nil, func(p *field.Path) { v.hostPath(s.HostPath, p) }},
		{"gitRepo", s.GitRepo != nil, func(p *field.Path) {
			v.need(p.Child("repository"), s.GitRepo.Repository)
			v.descendingPath(p.Child("directory"), s.GitRepo.Directory)
		}},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, func(p *field.Path) {
			v.disk(p.Child("pdName"), s.GCEPersistentDisk.PDName, p.Child("partition"), s.GCEPersistentDisk.Partition)
		}},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, func(p *field.Path) {
			v.disk(p.Child("volumeID"), s.AWSElasticBlockStore.VolumeID, p.Child("partition"), s.AWSElasticBlockStore.Partition)
		}},
		{"secret", s.Secret != nil, func(p *field.Path) {
			v.need(p.Child("secretName"), s.Secret.SecretName)
			v.fileMode(p.Child("defaultMode"), s.Secret.DefaultMode)
			v.userID(p.Child("defaultUser"), s.Secret.DefaultUser)
			v.keys(s.Secret.Items, p.Child("items"))
		}},
	}
}

func (v *validator) apiSources(vol *corev1.Volume) []sourceRule {
	s := &vol.VolumeSource
	return []sourceRule{
		{"downwardAPI", s.DownwardAPI != nil, func(p *field.Path) {
			v.fileMode(p.Child("defaultMode"), s.DownwardAPI.DefaultMode)
			v.userID(p.Child("defaultUser"), s.DownwardAPI.DefaultUser)
			for i := range s.DownwardAPI.Items {
				v.downwardFile(&s.DownwardAPI.Items[i], p)
			}
		}},
		{"fc", s.FC != nil, func(p *field.Path) { v.fibreChannel(s.FC, p) }},
		{"flexVolume", s.FlexVolume != nil, func(p *field.Path) { v.flexVolume(s.FlexVolume.Driver, s.FlexVolume.Options, p) }},
		{"configMap", s.ConfigMap != nil, func(p *field.Path) {
			v.need(p.Child("name"), s.ConfigMap.Name)
			v.fileMode(p.Child("defaultMode"), s.ConfigMap.DefaultMode)
			v.userID(p.Child("defaultUser"), s.ConfigMap.DefaultUser)
			v.keys(s.ConfigMap.Items, p.Child("items"))
		}},
	}
}

func (v *validator) lateSources(vol *corev1.Volume) []sourceRule {
	s := &vol.VolumeSource
	return []sourceRule{
		{"projected", s.Projected != nil, func(p *field.Path) { v.projected(s.Projected, p) }},
		{"scaleIO", s.ScaleIO != nil, func(p *field.Path) {
			v.scaleIO(s.ScaleIO.Gateway, s.ScaleIO.System, s.ScaleIO.VolumeName, p)
		}},
		{"csi", s.CSI != nil, func(p *field.Path) { v.csi(s.CSI, p) }},
		{"ephemeral", s.Ephemeral != nil, func(p *field.Path) {
			if t := s.Ephemeral.VolumeClaimTemplate; t == nil {
				v.required(p.Child("volumeClaimTemplate"), "")
			} else {
				v.claimTemplate(t, p.Child("volumeClaimTemplate"))
			}
		}},
		{"image", s.Image != nil, func(p *field.Path) {
			if !v.allow.emptyImageVolume {
				v.need(p.Child("reference"), s.Image.Reference)
			}
			v.pullPolicy(p.Child("pullPolicy"), s.Image.PullPolicy)
		}},
	}
}

func (v *validator) emptyDir(s *corev1.EmptyDirVolumeSource, p *field.Path) {
	if s.SizeLimit != nil && s.SizeLimit.Sign() < 0 {
		v.forbidden(p.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
	}
	if s.Mode != nil && (*s.Mode < 0 || *s.Mode > 0o1777) {
		v.invalid(p.Child("mode"), *s.Mode, "must be a number between 0 and 01777 (octal), both inclusive")
	}
}

func (r *report) hostPath(s *corev1.HostPathVolumeSource, p *field.Path) {
	if !r.need(p.Child("path"), s.Path) {
		return
	}
	r.noBacksteps(p.Child("path"), s.Path)
	if s.Type != nil {
		oneOf(r, p.Child("type"), *s.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev,
			corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

func (v *validator) keys(items []corev1.KeyToPath, p *field.Path) {
	for i := range items {
		v.keyToPath(&items[i], p.Index(i))
	}
}

func (v *validator) keyToPath(k *corev1.KeyToPath, p *field.Path) {
	v.need(p.Child("key"), k.Key)
	v.need(p.Child("path"), k.Path)
	v.localPath(p.Child("path"), k.Path)
	v.fileMode(p.Child("mode"), k.Mode)
	v.userID(p.Child("user"), k.User)
}

func (v *validator) csi(s *corev1.CSIVolumeSource, p *field.Path) {
	v.driverName(p.Child("driver"), s.Driver)
	if ref := s.NodePublishSecretRef; ref != nil {
		if v.need(p.Child("nodePublishSecretRef", "name"), ref.Name) {
			v.name(p.Child("name"), ref.Name, false)
		}
	}
}

func (r *report) driverName(p *field.Path, name string) {
	if !r.need(p, name) {
		return
	}
	if len(name) > 63 {
		r.add(field.TooLong(p, "", 63))
	}
	r.invalid(p, name, apivalidation.NameIsDNSSubdomain(strings.ToLower(name), false)...)
}

// claimName validates the name of the claim that an ephemeral volume of a pod creates.
func (v *validator) claimName(vol *corev1.Volume, p *field.Path) {
	if v.meta == nil || v.meta.Name == "" || vol.Name == "" {
		return
	}
	claim := v.meta.Name + "-" + vol.Name
	for _, msg := range apivalidation.NameIsDNSSubdomain(claim, false) {
		v.invalid(p, vol.Name, fmt.Sprintf("PVC name %q: %v", claim, msg))
	}
}

// noBacksteps rejects a path with an element "..".
func (r *report) noBacksteps(p *field.Path, target string) {
	if hasBacksteps(target) {
		r.invalid(p, target, "must not contain '..'")
	}
}

func hasBacksteps(target string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(target), "/"), "..")
}

// descendingPath rejects a path that leaves its starting directory.
func (r *report) descendingPath(p *field.Path, target string) {
	if path.IsAbs(target) {
		r.invalid(p, target, "must be a relative path")
	}
	r.noBacksteps(p, target)
}

// localPath also rejects names starting in "..", which the kubelet uses itself when it writes volumes.
func (r *report) localPath(p *field.Path, target string) {
	r.descendingPath(p, target)
	if strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../") {
		r.invalid(p, target, "must not start with '..'")
	}
}
