package volume

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/internal/disk"
	"github.com/keelson-dev/keelson/kubelet/volume/podcertificates"
)

// ErrUnsupported means that the package does not support the kind of volume.
var ErrUnsupported = errors.New("not supported")

// Objects reads the objects that volumes refer to. For a missing object, apierrors.IsNotFound reports true for the
// error. The objects are shared and only read.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) // reads a config map
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)       // reads a secret
}

// Tokens issues service account tokens.
type Tokens interface {
	// Token returns a new token of a service account according to the request.
	Token(ctx context.Context, namespace, account string, request authenticationv1.TokenRequestSpec) (authenticationv1.TokenRequestStatus, error)
}

// Certificates obtains certificates of pods; podcertificates.Certificates does.
type Certificates interface {
	// Certificate returns the certificate in use for a source of a volume, with its key.
	Certificate(ctx context.Context, r podcertificates.Request) (podcertificates.Bundle, error)
	// Forget drops what is known about a pod.
	Forget(pod types.UID)
}

// Sources are where the content of volumes comes from. Volumes that need a nil source fail.
type Sources struct {
	Objects Objects
	Tokens  Tokens
	Trust   TrustBundles // nil rejects projections of them
	// Certificates obtains the certificates of pods; nil rejects projections of them.
	Certificates Certificates
	// Claims are what pods claim; ReadWriteOncePod is enforced among the pods of the node.
	Claims claims.Reader
	// CSI mounts the volumes of drivers.
	CSI Plugin
}

// Options configures New. The zero value is ready to use as root on Linux.
type Options struct {
	// Allocatable returns what the node currently has for pods. It provides the limits of containers without any in
	// downward API volumes, and of memory volumes. Nil means none.
	Allocatable func() corev1.ResourceList
	// Rootless avoids mounts and changes of owner, for a process that is not root: volumes in memory are on disk, and
	// sub-paths are checked only when a container is created.
	Rootless bool
	// RecursiveReadOnly reports whether the runtime supports recursively read-only mounts for a pod; nil means no.
	RecursiveReadOnly func(*corev1.Pod) bool
	// SELinux lets the runtime relabel volumes that belong to pods.
	SELinux bool
	// HostsFile is the node's hosts file; empty is /etc/hosts.
	HostsFile string
	// NodeLabels returns the node's labels, by which it is decided whether it reaches a persistent volume; nil means
	// that it has none.
	NodeLabels func() map[string]string
	// Mounter mounts what the kernel cannot without help, such as NFS; nil runs the node's mount program.
	Mounter Mounter
	// Logger records details that errors leave out; nil discards them.
	Logger *slog.Logger
}

// Volumes manages the volumes of a node's pods. Make one with New.
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

// New makes a Volumes that keeps everything below the directory, upstream's /var/lib/kubelet, which need not exist yet.
// It does not touch the file system.
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
	if o.NodeLabels == nil {
		o.NodeLabels = func() map[string]string { return nil }
	}
	if o.Mounter == nil {
		o.Mounter = mountProgram{}
	}
	o.Rootless = o.Rootless || !canMount
	return &Volumes{
		dir: filepath.Clean(dir), in: in, options: o, log: o.Logger, seed: maphash.MakeSeed(), pods: map[types.UID]*podState{},
	}, nil
}

// podState is what is cached for a pod so that a sync is quick. All of it can be recomputed.
type podState struct {
	mu sync.Mutex
	// users counts the calls that hold or wait for it; guarded by Volumes.mu.
	users int
	// written holds the fingerprints of the volumes' content.
	written map[string]uint64
	tokens  map[tokenKey]token
	// certificates says when the volumes with certificates need Prepare again.
	certificates map[tokenKey]time.Time
	// placed holds the volumes that needed a claim or a plugin, by their names in the pod; guarded by Volumes.mu.
	placed map[string]placed
}

// lock returns the state of a pod for exclusive use by the caller until it calls unlock.
func (v *Volumes) lock(uid types.UID) (p *podState, unlock func()) {
	v.mu.Lock()
	p = v.pods[uid]
	if p == nil {
		p = &podState{written: map[string]uint64{}, tokens: map[tokenKey]token{}, certificates: map[tokenKey]time.Time{}, placed: map[string]placed{}}
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
		if p.users == 0 && len(p.written) == 0 && len(p.tokens) == 0 && len(p.certificates) == 0 && len(p.placed) == 0 {
			delete(v.pods, uid)
		}
	}
}

// SetUpError says why a volume is not ready, in the words of upstream's FailedMount events.
type SetUpError = claims.MountError

// Failures lists the failed volumes in an error of Prepare.
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

// Prepare implements kubelet.Volumes. Volumes that no container uses are left out.
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
	var unattached []string
	lost := &claims.UnprocessedError{}
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if !used[vol.Name] {
			continue
		}
		m, err := v.resolve(ctx, p, pod, vol)
		if err != nil {
			lost.Unprocessed, lost.Errs = append(lost.Unprocessed, vol.Name), append(lost.Errs, err)
		} else if err = v.setUp(ctx, p, m); err != nil {
			failed = append(failed, named(m, err))
			if errors.Is(err, claims.ErrAttachLimit) {
				unattached = append(unattached, vol.Name)
			}
		}
		if err != nil {
			lost.Unmounted = append(lost.Unmounted, vol.Name)
		}
	}
	slices.Sort(lost.Unmounted)
	slices.Sort(lost.Unprocessed)
	if len(lost.Errs) > 0 {
		failed = append(failed, lost)
	}
	if len(unattached) > 0 {
		slices.Sort(unattached)
		failed = append(failed, overLimit(lost, unattached))
	}
	return errors.Join(failed...)
}

// overLimit rejects a pod, in upstream's words, some of whose volumes the node cannot take (KEP-4876).
func overLimit(lost *claims.UnprocessedError, unattached []string) *kubelet.Refusal {
	return &kubelet.Refusal{Reason: "VolumeAttachmentLimitExceeded", Message: fmt.Sprintf(
		"Node has reached its volume attachment limit, rejecting pod. unmounted volumes=%v, unattached volumes=%v, failed to process volumes=%v: %v",
		lost.Unmounted, unattached, lost.Unprocessed, context.DeadlineExceeded)}
}

// named adds the volume's name to the reason why it is not ready.
func named(m claims.Mount, err error) error {
	if one, ok := err.(*SetUpError); ok { //nolint:errorlint // as plugins return it
		return &SetUpError{Operation: one.Operation, Volume: m.Name(), Err: one.Err}
	}
	return &SetUpError{Volume: m.Name(), Err: err}
}

// setUp sets up one volume.
func (v *Volumes) setUp(ctx context.Context, p *podState, m claims.Mount) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, name := range []string{m.Volume.Name, m.Name()} {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if m.Persistent != nil {
		return v.setUpPersistent(ctx, p, m)
	}
	switch k := kindOf(m.Volume); k {
	case emptyDir:
		return v.setUpEmptyDir(m.Pod, m.Volume)
	case hostPath:
		return v.setUpHostPath(m.Volume.HostPath)
	case configMap, secret, downwardAPI, projected:
		return v.project(ctx, p, m.Pod, m.Volume)
	case image:
		return nil
	case nfs, csi:
		return v.plug(ctx, p, m, k)
	default:
		return noPlugin(sourceName(m.Volume.VolumeSource))
	}
}

func noPlugin(source string) error {
	return fmt.Errorf("no volume plugin matched: %s volumes are %w", source, ErrUnsupported)
}

// ImageVolume is an image that a pod uses as a volume.
type ImageVolume struct {
	Volume, Reference string // the names of the volume and of the image
	PullPolicy        corev1.PullPolicy
}

// Images returns the images that must be present before the pod's containers are created: those of its mounted image
// volumes.
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

// Path returns the path of a pod's volume on the node, for measuring or reading it; it is empty for volumes without a
// path, such as images.
func (v *Volumes) Path(pod *corev1.Pod, volume string) string {
	for i := range pod.Spec.Volumes {
		if vol := &pod.Spec.Volumes[i]; vol.Name == volume {
			_, path := v.place(pod.UID, vol)
			return path
		}
	}
	return ""
}

// NextRefresh returns the latest time for the next call of Prepare, because a token or certificate is about to expire; the zero time
// means that only changes require one.
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
	for _, at := range p.refreshes() {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Open opens a regular file in a volume of the pod for reading. Links are resolved as if the volume were the root
// directory, so the file is always in the volume.
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
