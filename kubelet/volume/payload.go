package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/kubelet/environment/downward"
	"github.com/keelson-dev/keelson/kubelet/volume/atomic"
)

// defaultFileMode is the mode of files whose volume sets none.
const defaultFileMode int32 = 0o644

// payload holds the files of a volume by their paths.
type payload map[string]atomic.File

// collector gathers the files of one volume.
type collector struct {
	v     *Volumes
	pod   *corev1.Pod
	state *podState
	mode  int32
	files payload
}

// project updates a volume whose files come from other sources.
func (v *Volumes) project(ctx context.Context, p *podState, pod *corev1.Pod, vol *corev1.Volume) error {
	c := collector{v: v, pod: pod, state: p, mode: defaultFileMode, files: payload{}}
	if err := c.collect(ctx, vol); err != nil {
		return err
	}
	mark := c.files.fingerprint(v.seed)
	k := kindOf(vol)
	dir := v.volumeDir(pod.UID, k, vol.Name)
	if p.written[vol.Name] == mark && exists(filepath.Join(dir, "..data")) {
		return nil
	}
	if err := v.makeDir(dir); err != nil {
		return err
	}
	if k != configMap { // secrets and the like are never written to disk
		if err := v.mountMemory(dir, v.memorySize(pod, nil)); err != nil {
			return err
		}
	}
	if err := v.makeNested(pod, vol.Name, dir); err != nil {
		return err
	}
	own := func(dir string) error { return v.own(dir, pod, true) }
	if _, err := atomic.Write(dir, c.files, atomic.Options{Prepare: own, Step: v.disk.Step}); err != nil {
		return err
	}
	p.written[vol.Name] = mark
	return nil
}

// fingerprint identifies a payload within this process.
func (p payload) fingerprint(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range slices.Sorted(maps.Keys(p)) {
		f := p[name]
		var head [24]byte
		binary.LittleEndian.PutUint64(head[:], uint64(len(name)))
		binary.LittleEndian.PutUint64(head[8:], uint64(len(f.Data)))
		binary.LittleEndian.PutUint64(head[16:], uint64(f.Mode))
		_, _ = h.Write(head[:])
		_, _ = h.WriteString(name)
		_, _ = h.Write(f.Data)
	}
	return h.Sum64() | 1 // never 0, which stands for not written
}

func (c *collector) collect(ctx context.Context, vol *corev1.Volume) error {
	switch k := kindOf(vol); k {
	case configMap:
		s := vol.ConfigMap
		c.setMode(s.DefaultMode)
		return c.addConfigMap(ctx, &corev1.ConfigMapProjection{LocalObjectReference: s.LocalObjectReference, Items: s.Items, Optional: s.Optional})
	case secret:
		s := vol.Secret
		c.setMode(s.DefaultMode)
		return c.addSecret(ctx, &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName}, Items: s.Items, Optional: s.Optional,
		})
	case downwardAPI:
		c.setMode(vol.DownwardAPI.DefaultMode)
		return c.addDownward(vol.DownwardAPI.Items)
	default:
		c.setMode(vol.Projected.DefaultMode)
		var failed []error
		for i := range vol.Projected.Sources {
			failed = append(failed, c.addSource(ctx, vol.Name, i, &vol.Projected.Sources[i]))
		}
		return aggregate(failed)
	}
}

// aggregate joins errors like upstream: one as it is, several in brackets.
func aggregate(list []error) error {
	list = slices.DeleteFunc(list, func(err error) bool { return err == nil })
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	default:
		return aggregated(list)
	}
}

type aggregated []error

func (a aggregated) Error() string {
	var out []byte
	seen := map[string]bool{}
	for _, err := range a {
		text := err.Error()
		if seen[text] {
			continue
		}
		seen[text] = true
		if len(out) > 0 {
			out = append(out, ", "...)
		}
		out = append(out, text...)
	}
	if len(seen) == 1 {
		return string(out)
	}
	return "[" + string(out) + "]"
}

func (a aggregated) Unwrap() []error { return a }

func (c *collector) setMode(mode *int32) {
	if mode != nil {
		c.mode = *mode
	}
}

func (c *collector) add(p string, data []byte, mode int32) {
	c.files[p] = atomic.File{Data: data, Mode: fileMode(mode)}
}

// addPrivate adds a file that only the pod's user should read: with an owner or group it need not be readable by
// everybody.
func (c *collector) addPrivate(p string, data []byte) {
	f := atomic.File{Data: data, Mode: fileMode(c.mode)}
	user := fsUser(c.pod)
	if user != nil || fsGroup(c.pod) != nil {
		f.Mode = 0o600
	}
	if !c.v.options.Rootless {
		f.Owner = user
	}
	c.files[p] = f
}

// fileMode converts a mode in the API to Go's.
func fileMode(mode int32) fs.FileMode {
	out := fs.FileMode(mode) & fs.ModePerm
	if mode&0o1000 != 0 {
		out |= fs.ModeSticky
	}
	if mode&0o2000 != 0 {
		out |= fs.ModeSetgid
	}
	if mode&0o4000 != 0 {
		out |= fs.ModeSetuid
	}
	return out
}

// addSource adds one source of a projected volume.
func (c *collector) addSource(ctx context.Context, volume string, index int, s *corev1.VolumeProjection) error {
	switch {
	case s.Secret != nil:
		return c.addSecret(ctx, s.Secret)
	case s.ConfigMap != nil:
		return c.addConfigMap(ctx, s.ConfigMap)
	case s.DownwardAPI != nil:
		return c.addDownward(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return c.addToken(ctx, tokenKey{volume, index}, s.ServiceAccountToken)
	case s.ClusterTrustBundle != nil:
		return c.addTrust(ctx, s.ClusterTrustBundle)
	case s.PodCertificate != nil:
		return c.addCertificate(ctx, tokenKey{volume, index}, s.PodCertificate)
	default:
		return nil
	}
}

// items says which keys a reference to a config map or secret selects.
type items struct {
	list     []corev1.KeyToPath
	optional bool
	missing  string // the start of the message about a missing key
}

// pick adds the selected keys of an object.
func (c *collector) pick(data map[string][]byte, want items) error {
	if len(want.list) == 0 {
		for k, d := range data {
			c.add(k, d, c.mode)
		}
		return nil
	}
	files := payload{}
	for _, item := range want.list {
		d, ok := data[item.Key]
		if !ok && want.optional {
			continue
		}
		if !ok {
			return errors.New(want.missing + item.Key)
		}
		mode := c.mode
		if item.Mode != nil {
			mode = *item.Mode
		}
		files[item.Path] = atomic.File{Data: d, Mode: fileMode(mode)}
	}
	maps.Copy(c.files, files)
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

var errNoObjects = errors.New("there is no source of configmaps and secrets")

func (c *collector) addConfigMap(ctx context.Context, s *corev1.ConfigMapProjection) error {
	if c.v.in.Objects == nil {
		return errNoObjects
	}
	optional := isTrue(s.Optional)
	m, err := c.v.in.Objects.ConfigMap(ctx, c.pod.Namespace, s.Name)
	if err != nil && (!apierrors.IsNotFound(err) || !optional) {
		return err
	}
	data := map[string][]byte{}
	if err == nil {
		maps.Copy(data, m.BinaryData)
		for k, d := range m.Data {
			data[k] = []byte(d)
		}
	}
	return c.pick(data, items{s.Items, optional, "configmap references non-existent config key: "})
}

func (c *collector) addSecret(ctx context.Context, s *corev1.SecretProjection) error {
	if c.v.in.Objects == nil {
		return errNoObjects
	}
	optional := isTrue(s.Optional)
	found, err := c.v.in.Objects.Secret(ctx, c.pod.Namespace, s.Name)
	if err != nil && (!apierrors.IsNotFound(err) || !optional) {
		return err
	}
	var data map[string][]byte
	if err == nil {
		data = found.Data
	}
	return c.pick(data, items{s.Items, optional, "references non-existent secret key: "})
}

func (c *collector) addDownward(list []corev1.DownwardAPIVolumeFile) error {
	var failed []error
	for _, f := range list {
		var value string
		var err error
		switch {
		case f.FieldRef != nil:
			value, err = downward.Field(c.pod, f.FieldRef.FieldPath)
		case f.ResourceFieldRef != nil:
			value, err = c.resource(f.ResourceFieldRef)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		mode := c.mode
		if f.Mode != nil {
			mode = *f.Mode
		}
		c.add(path.Clean(f.Path), []byte(value), mode)
	}
	return aggregate(failed)
}

func (c *collector) resource(selector *corev1.ResourceFieldSelector) (string, error) {
	of, err := downward.Container(c.pod, selector.ContainerName)
	if err != nil {
		return "", err
	}
	var allocatable corev1.ResourceList
	if c.v.options.Allocatable != nil {
		allocatable = c.v.options.Allocatable()
	}
	return downward.Resource(selector, of, allocatable)
}
