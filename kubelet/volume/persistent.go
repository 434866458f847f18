package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// Plugin mounts the volumes of one kind. It is called for one pod at a time, for different pods at once.
type Plugin interface {
	// SetUp mounts a volume for its pod and returns the path that containers see: below dir, which need not exist, or
	// a device if the volume is one. It is called on every sync of the pod, by later processes too, and must be quick
	// when the volume is mounted already. Its error may be a SetUpError, whose volume the caller fills in.
	SetUp(ctx context.Context, m claims.Mount, dir string) (path string, err error)
	// TearDown undoes what SetUp did in dir, of which nothing may be left. It learns everything else from what it
	// finds there, since another process may have made it.
	TearDown(ctx context.Context, uid types.UID, dir string) error
}

// placed is where a volume is that needed a claim or a plugin.
type placed struct {
	kind kind
	path string
	claims.Mount
}

func (v *Volumes) placedAt(uid types.UID, volume string) (placed, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.pods[uid]
	if p == nil {
		return placed{}, false
	}
	at, ok := p.placed[volume]
	return at, ok
}

// put records where a volume is.
func (v *Volumes) put(p *podState, at placed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p.placed[at.Volume.Name] = at
}

// displace forgets where a pod's volumes were.
func (v *Volumes) displace(p *podState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(p.placed)
}

// resolve finds what is behind a volume. What a mounted volume was resolved to stays, whatever becomes of its claim.
func (v *Volumes) resolve(ctx context.Context, p *podState, pod *corev1.Pod, vol *corev1.Volume) (claims.Mount, error) {
	if v.in.Claims == nil {
		return claims.Mount{Pod: pod, Volume: vol}, nil
	}
	m, err := claims.Resolve(ctx, v.in.Claims, pod, vol)
	if err == nil {
		return m, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := p.placed[vol.Name]; ok {
		at.Pod = pod
		return at.Mount, nil
	}
	return m, err
}

// setUpPersistent sets up a volume that was claimed.
func (v *Volumes) setUpPersistent(ctx context.Context, p *podState, m claims.Mount) error {
	if err := claims.CheckNode(m, v.options.NodeLabels()); err != nil {
		return err
	}
	source := &m.Persistent.Spec.PersistentVolumeSource
	if source.HostPath != nil && len(m.Options()) > 0 {
		return &SetUpError{Operation: "MountVolume.MountOptionSupport check failed", Err: errors.New("mount options are not supported for this volume type")}
	}
	if m.Exclusive() && v.usedElsewhere(m) {
		return claims.ErrInUse
	}
	switch {
	case source.HostPath != nil && !m.Block():
		if err := v.setUpHostPath(source.HostPath); err != nil {
			return err
		}
		v.put(p, placed{hostPath, source.HostPath.Path, m})
		return nil
	case source.Local != nil:
		return v.plug(ctx, p, m, local)
	case source.NFS != nil && !m.Block():
		return v.plug(ctx, p, m, nfs)
	case source.CSI != nil:
		return v.plug(ctx, p, m, csi)
	case m.Block():
		return &SetUpError{Operation: "MapVolume.FindMapperPluginBySpec failed", Err: fmt.Errorf("no volume plugin matched: %s volumes as devices are %w", sourceName(*source), ErrUnsupported)}
	default:
		return noPlugin(sourceName(*source))
	}
}

// plug lets the plugin of a kind set up a volume.
func (v *Volumes) plug(ctx context.Context, p *podState, m claims.Mount, k kind) error {
	plugin := v.plugin(k)
	if plugin == nil {
		return noPlugin(string(k))
	}
	path, err := plugin.SetUp(ctx, m, v.pluggedDir(m, k))
	if err != nil {
		return err
	}
	v.put(p, placed{k, path, m})
	return nil
}

func (v *Volumes) plugin(k kind) Plugin {
	switch k {
	case local:
		return localPlugin{v}
	case nfs:
		return nfsPlugin{v}
	case csi:
		return v.in.CSI
	default:
		return nil
	}
}

// pluggedDir is the directory of a volume that a plugin mounts.
func (v *Volumes) pluggedDir(m claims.Mount, k kind) string {
	if m.Block() {
		return filepath.Join(v.podDir(m.Pod.UID), devicesDir, "kubernetes.io~"+string(k), m.Name())
	}
	return v.volumeDir(m.Pod.UID, k, m.Name())
}

// devicesDir is where a pod's devices are, below its directory.
const devicesDir = "volumeDevices"

// unplug lets plugins take down what they have set up for a pod.
func (v *Volumes) unplug(ctx context.Context, uid types.UID) error {
	var failed []error
	for _, k := range []kind{local, nfs, csi} {
		for _, base := range []string{"volumes", devicesDir} {
			parent := filepath.Join(v.podDir(uid), base, "kubernetes.io~"+string(k))
			entries, err := os.ReadDir(parent)
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) {
					failed = append(failed, err)
				}
				continue
			}
			for _, e := range entries {
				plugin := v.plugin(k)
				if plugin == nil {
					failed = append(failed, noPlugin(string(k)))
					continue
				}
				if err := plugin.TearDown(ctx, uid, filepath.Join(parent, e.Name())); err != nil {
					failed = append(failed, fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", e.Name(), err))
				}
			}
		}
	}
	return errors.Join(failed...)
}

// usedElsewhere reports whether another pod of the node has the volume, also one that another process set up.
func (v *Volumes) usedElsewhere(m claims.Mount) bool {
	v.mu.Lock()
	for uid, p := range v.pods {
		for _, at := range p.placed {
			if uid != m.Pod.UID && at.Persistent != nil && at.Persistent.Name == m.Persistent.Name {
				v.mu.Unlock()
				return true
			}
		}
	}
	v.mu.Unlock()
	return len(v.others(m)) > 0
}

// others lists the directories that other pods have for the volume.
func (v *Volumes) others(m claims.Mount) []string {
	var found []string
	for _, base := range []string{"volumes", devicesDir} {
		dirs, _ := filepath.Glob(filepath.Join(v.podsDir(), "*", base, "*", m.Name())) // the pattern is valid
		found = append(found, dirs...)
	}
	return slices.DeleteFunc(found, func(dir string) bool { return strings.HasPrefix(dir, v.podDir(m.Pod.UID)+"/") })
}

// isReadOnly reports whether a pod may only read a volume, whatever its containers ask for.
func (v *Volumes) isReadOnly(uid types.UID, vol *corev1.Volume) bool {
	at, ok := v.placedAt(uid, vol.Name)
	if !ok {
		return false
	}
	switch {
	case at.Persistent != nil:
		return at.ReadOnly
	case vol.NFS != nil:
		return vol.NFS.ReadOnly
	case vol.CSI != nil:
		return vol.CSI.ReadOnly != nil && *vol.CSI.ReadOnly
	}
	return false
}
