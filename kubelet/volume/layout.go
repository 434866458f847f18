package volume

import (
	"fmt"
	"iter"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kind is a kind of volume, under upstream's plugin name.
type kind string

const (
	emptyDir    kind = "empty-dir"
	configMap   kind = "configmap"
	secret      kind = "secret"
	downwardAPI kind = "downward-api"
	projected   kind = "projected"
	hostPath    kind = "host-path"
	image       kind = "image"
	local       kind = "local-volume"
	nfs         kind = "nfs"
	csi         kind = "csi"
	unsupported kind = ""
)

func kindOf(vol *corev1.Volume) kind {
	switch s := &vol.VolumeSource; {
	case s.EmptyDir != nil:
		return emptyDir
	case s.HostPath != nil:
		return hostPath
	case s.ConfigMap != nil:
		return configMap
	case s.Secret != nil:
		return secret
	case s.DownwardAPI != nil:
		return downwardAPI
	case s.Projected != nil:
		return projected
	case s.Image != nil:
		return image
	case s.NFS != nil:
		return nfs
	case s.CSI != nil:
		return csi
	case sourceName(vol.VolumeSource) == "": // a volume without a source is an emptyDir
		return emptyDir
	default:
		return unsupported
	}
}

// sourceName is the name of the field that is set in the source of a volume or of a persistent volume.
func sourceName(in any) string {
	source := reflect.ValueOf(in)
	for i := range source.NumField() {
		if source.Field(i).Kind() == reflect.Pointer && !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}

// isReadOnly reports whether containers never write to volumes of the kind.
func (k kind) isReadOnly() bool {
	switch k {
	case configMap, secret, downwardAPI, projected, image:
		return true
	default:
		return false
	}
}

// checkName rejects what is not the name of one file. Validation rejects such names too, but static pods are not
// validated by a server.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > 255 {
		return fmt.Errorf("invalid name %q", name)
	}
	return nil
}

func (v *Volumes) podsDir() string { return filepath.Join(v.dir, "pods") }

func (v *Volumes) podDir(uid types.UID) string { return filepath.Join(v.podsDir(), string(uid)) }

func (v *Volumes) volumeDir(uid types.UID, k kind, name string) string {
	return filepath.Join(v.podDir(uid), "volumes", "kubernetes.io~"+string(k), name)
}

func (v *Volumes) subPathTarget(uid types.UID, volume, container string, index int) string {
	return filepath.Join(v.podDir(uid), "volume-subpaths", volume, container, strconv.Itoa(index))
}

// readyDir is a directory that exists once an emptyDir is complete.
func (v *Volumes) readyDir(uid types.UID, name string) string {
	return filepath.Join(v.podDir(uid), "plugins", "kubernetes.io~"+string(emptyDir), name)
}

// place returns the kind of a volume and its path, which is empty for one without a path. A volume with a claim has
// neither before Prepare.
func (v *Volumes) place(uid types.UID, vol *corev1.Volume) (kind, string) {
	switch k := kindOf(vol); k {
	case hostPath:
		return k, vol.HostPath.Path
	case image:
		return k, ""
	case nfs, csi, unsupported:
		p, _ := v.placedAt(uid, vol.Name)
		return p.kind, p.path
	default:
		return k, v.volumeDir(uid, k, vol.Name)
	}
}

// containers iterates over all containers of a pod, of whatever kind.
func containers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(&c) {
				return
			}
		}
	}
}

// usedVolumes returns the names of the volumes that are mounted, or read for variables.
func usedVolumes(pod *corev1.Pod) map[string]bool {
	used := map[string]bool{}
	for c := range containers(pod) {
		for _, m := range c.VolumeMounts {
			used[m.Name] = true
		}
		for _, d := range c.VolumeDevices {
			used[d.Name] = true
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil {
				used[e.ValueFrom.FileKeyRef.VolumeName] = true
			}
		}
	}
	return used
}
