package volume

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume/internal/disk"
)

// ErrUnsupported: the volume is of a kind that this package does not make.
var ErrUnsupported = errors.New("not supported")

// Objects reads what volumes are filled with. What is not there is an error by which
// apierrors.IsNotFound is true. Objects are shared and only read.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Tokens makes tokens of service accounts.
type Tokens interface {
	// Token returns a new token of a service account as the request has it.
	Token(ctx context.Context, namespace, account string, request authenticationv1.TokenRequestSpec) (authenticationv1.TokenRequestStatus, error)
}

// Sources are where the content of volumes comes from. Volumes for which theirs is nil fail.
type Sources struct {
	Objects Objects
	Tokens  Tokens
	Trust   TrustBundles
}

// Options of New. The zero value is ready to use, as root on Linux.
type Options struct {
	// Allocatable returns what the node has for pods now: the limits of containers without any, in
	// downward API volumes, and of memory volumes. Nil is none.
	Allocatable func() corev1.ResourceList
	// Rootless does without mounts and owners, as a process must that is not root: volumes
	// in memory are on disk, and sub-paths are only checked when a container is made.
	Rootless bool
	// RecursiveReadOnly reports whether the runtime can make mounts read-only with all below them
	// for a pod; nil is no.
	RecursiveReadOnly func(*corev1.Pod) bool
	// SELinux lets the runtime relabel what is the pods' own.
	SELinux bool
	// HostsFile is the node's; empty is /etc/hosts.
	HostsFile string
	// Logger is told what callers are not; nil discards.
	Logger *slog.Logger
}

// Volumes keeps the volumes of a node's pods. Make one with New.
type Volumes struct {
	dir     string
	in      Sources
	options Options
	disk    disk.Disk
	log     *slog.Logger
	seed    maphash.Seed

	mu   sync.Mutex
	pods map[types.UID]*podState
}

var _ kubelet.Volumes = (*Volumes)(nil)

// New makes a Volumes that keeps everything below the directory, upstream's /var/lib/kubelet,
// which need not be there yet. It does not touch the file system.
func New(dir string, in Sources, o Options) (*Volumes, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory of volumes must be absolute, not %q", dir)
	}
	if o.HostsFile == "" {
		o.HostsFile = "/etc/hosts"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Rootless = o.Rootless || !canMount
	return &Volumes{
		dir: filepath.Clean(dir), in: in, options: o, log: o.Logger, seed: maphash.MakeSeed(), pods: map[types.UID]*podState{},
	}, nil
}

// podState is what is remembered of a pod so that a pass over it is quick. All of it can be found
// out again.
type podState struct {
	mu sync.Mutex
	// users counts who holds or waits for it, kept by Volumes.mu.
	users int
	// written are the fingerprints of what volumes were filled with.
	written map[string]uint64
	tokens  map[tokenKey]token
}

// lock returns the state of a pod, for the caller alone until it calls unlock.
func (v *Volumes) lock(uid types.UID) (p *podState, unlock func()) {
	v.mu.Lock()
	p = v.pods[uid]
	if p == nil {
		p = &podState{written: map[string]uint64{}, tokens: map[tokenKey]token{}}
		v.pods[uid] = p
	}
	p.users++
	v.mu.Unlock()
	p.mu.Lock()
	return p, func() {
		p.mu.Unlock()
		v.mu.Lock()
		defer v.mu.Unlock()
		p.users--
		if p.users == 0 && len(p.written) == 0 && len(p.tokens) == 0 {
			delete(v.pods, uid)
		}
	}
}

// SetUpError says why one volume is not ready, in the words of upstream's FailedMount events.
type SetUpError struct {
	Volume string
	Err    error
}

func (e *SetUpError) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

// Unwrap returns what went wrong.
func (e *SetUpError) Unwrap() error { return e.Err }

// Failures lists the volumes that an error of Prepare is about.
func Failures(err error) []*SetUpError {
	var one *SetUpError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*SetUpError
		for _, e := range joined.Unwrap() {
			all = append(all, Failures(e)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []*SetUpError{one}
	}
	return nil
}

// Prepare implements kubelet.Volumes. Volumes that no container mounts are left out.
func (v *Volumes) Prepare(ctx context.Context, pod *corev1.Pod) error {
	if err := checkName(string(pod.UID)); err != nil {
		return err
	}
	used := usedVolumes(pod)
	if len(used) == 0 {
		return nil
	}
	p, unlock := v.lock(pod.UID)
	defer unlock()
	var failed []error
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if !used[vol.Name] {
			continue
		}
		if err := v.setUp(ctx, p, pod, vol); err != nil {
			failed = append(failed, &SetUpError{vol.Name, err})
		}
	}
	return errors.Join(failed...)
}

// setUp makes one volume ready.
func (v *Volumes) setUp(ctx context.Context, p *podState, pod *corev1.Pod, vol *corev1.Volume) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkName(vol.Name); err != nil {
		return err
	}
	switch kindOf(vol) {
	case emptyDir:
		return v.setUpEmptyDir(pod, vol)
	case hostPath:
		return v.setUpHostPath(vol.HostPath)
	case configMap, secret, downwardAPI, projected:
		return v.project(ctx, p, pod, vol)
	case image:
		return nil
	default:
		return fmt.Errorf("no volume plugin matched: %s volumes are %w", sourceName(vol), ErrUnsupported)
	}
}

// ImageVolume is an image that a pod uses as a volume.
type ImageVolume struct {
	Volume, Reference string
	PullPolicy        corev1.PullPolicy
}

// Images are the images that must be there before the pod's containers are made: its image
// volumes that are mounted somewhere.
func Images(pod *corev1.Pod) []ImageVolume {
	var list []ImageVolume
	used := usedVolumes(pod)
	for _, vol := range pod.Spec.Volumes {
		if vol.Image != nil && used[vol.Name] {
			list = append(list, ImageVolume{vol.Name, vol.Image.Reference, vol.Image.PullPolicy})
		}
	}
	return list
}

// Path is where a volume of the pod is on the node, to measure it or to read it; empty for volumes that are
// not there as a path, such as images.
func (v *Volumes) Path(pod *corev1.Pod, volume string) string {
	for i := range pod.Spec.Volumes {
		if vol := &pod.Spec.Volumes[i]; vol.Name == volume {
			return v.pathOf(pod.UID, vol)
		}
	}
	return ""
}

// NextRefresh is when Prepare is to be called again at the latest, because a token gets old;
// zero is whenever something changes.
func (v *Volumes) NextRefresh(uid types.UID) time.Time {
	v.mu.Lock()
	p := v.pods[uid]
	v.mu.Unlock()
	if p == nil {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var next time.Time
	for _, t := range p.tokens {
		if next.IsZero() || t.refresh.Before(next) {
			next = t.refresh
		}
	}
	return next
}

// Open opens a regular file in a volume of the pod for reading. Links are resolved as a container sees
// them that has the volume as its root: the file is in the volume wherever they lead.
func (v *Volumes) Open(pod *corev1.Pod, volume, file string) (io.ReadCloser, error) {
	root := v.Path(pod, volume)
	if root == "" {
		return nil, fmt.Errorf("cannot find the volume %q", volume)
	}
	f, err := openInRoot(root, file)
	if err != nil {
		return nil, err
	}
	return f, nil
}
