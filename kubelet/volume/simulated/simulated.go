// Package simulated provides volumes in name, for nodes whose containers run in name: claims must lead to volumes that the
// node reaches, as on a real node, but nothing is mounted, and every failure is scripted.
//
// # Errors and concurrency
//
// Prepare fails in the words of the kubelet's FailedMount events, as package kubelet/volume does. A Volumes is safe for
// concurrent use.
package simulated

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// Options configures New. The zero value mounts everything, on a node without labels.
type Options struct {
	// Mount is called for each volume that a pod is about to have. Its error keeps the pod waiting; the kubelet tries
	// again. It may block until the context ends, like a server that does not answer.
	Mount func(ctx context.Context, m claims.Mount) error
	// Labels returns the node's labels; nil means that it has none.
	Labels func() map[string]string
}

// Volumes are those of a node's pods. Make one with New.
type Volumes struct {
	claims  claims.Reader
	options Options

	mu   sync.Mutex
	pods map[types.UID]map[string]claims.Mount // what each pod has, by the volumes' names in it
}

var _ kubelet.Volumes = (*Volumes)(nil)

// New makes the volumes of a node that reads what its pods claim.
func New(from claims.Reader, o Options) *Volumes {
	if o.Labels == nil {
		o.Labels = func() map[string]string { return nil }
	}
	return &Volumes{claims: from, options: o, pods: map[types.UID]map[string]claims.Mount{}}
}

// Prepare implements kubelet.Volumes. Volumes that the pod has already stay as they are.
func (v *Volumes) Prepare(ctx context.Context, pod *corev1.Pod) error {
	var failed []error
	lost := &claims.UnprocessedError{}
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if v.options.Mount == nil && claims.ClaimName(pod, vol) == "" || !claims.Used(pod, vol.Name) || v.has(pod.UID, vol.Name) {
			continue
		}
		m, err := claims.Resolve(ctx, v.claims, pod, vol)
		if err != nil {
			lost.Unprocessed, lost.Errs = append(lost.Unprocessed, vol.Name), append(lost.Errs, err)
		} else if err = v.mount(ctx, m); err != nil {
			failed = append(failed, err)
		}
		if err != nil {
			lost.Unmounted = append(lost.Unmounted, vol.Name)
		}
	}
	if len(lost.Errs) > 0 {
		slices.Sort(lost.Unmounted)
		slices.Sort(lost.Unprocessed)
		failed = append(failed, lost)
	}
	return errors.Join(failed...)
}

// mount lets the pod have a volume.
func (v *Volumes) mount(ctx context.Context, m claims.Mount) error {
	if err := claims.CheckNode(m, v.options.Labels()); err != nil {
		return err
	}
	if m.Exclusive() && v.elsewhere(m) {
		return &claims.MountError{Volume: m.Name(), Err: claims.ErrInUse}
	}
	if v.options.Mount != nil {
		if err := v.options.Mount(ctx, m); err != nil {
			return &claims.MountError{Volume: m.Name(), Err: err}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods[m.Pod.UID] == nil {
		v.pods[m.Pod.UID] = map[string]claims.Mount{}
	}
	v.pods[m.Pod.UID][m.Volume.Name] = m
	return nil
}

func (v *Volumes) has(uid types.UID, volume string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.pods[uid][volume]
	return ok
}

// elsewhere reports whether another pod has the volume.
func (v *Volumes) elsewhere(m claims.Mount) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid, mounts := range v.pods {
		for _, at := range mounts {
			if uid != m.Pod.UID && at.Persistent != nil && at.Persistent.Name == m.Persistent.Name {
				return true
			}
		}
	}
	return false
}

// Mounted returns what a pod has, sorted by the volumes' names in it.
func (v *Volumes) Mounted(uid types.UID) []claims.Mount {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []claims.Mount
	for _, m := range v.pods[uid] {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b claims.Mount) int {
		if a.Volume.Name < b.Volume.Name {
			return -1
		}
		return 1
	})
	return all
}

// Mounts implements kubelet.Volumes: containers in name see no files.
func (*Volumes) Mounts(context.Context, kubelet.MountRequest) ([]cri.Mount, error) { return nil, nil }

// NextRefresh implements kubelet.Volumes.
func (*Volumes) NextRefresh(types.UID) time.Time { return time.Time{} }

// Release implements kubelet.Volumes.
func (v *Volumes) Release(_ context.Context, uid types.UID) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.pods, uid)
	return nil
}

// Orphans implements kubelet.Volumes.
func (v *Volumes) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var gone []types.UID
	for uid := range v.pods {
		if !live(uid) {
			gone = append(gone, uid)
		}
	}
	slices.Sort(gone)
	return gone, nil
}
