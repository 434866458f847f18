package volume_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// server provides the content of volumes.
type server struct {
	mu      sync.Mutex
	objects map[string]any
	tokens  int
	life    time.Duration
	asked   []authenticationv1.TokenRequestSpec
	err     error
	csi     volume.Plugin
}

func newServer(objects ...any) *server {
	s := &server{objects: map[string]any{}, life: time.Hour}
	for _, o := range objects {
		s.put(o)
	}
	return s
}

func (s *server) put(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := o.(metav1.Object)
	s.objects[fmt.Sprintf("%T/%s/%s", o, m.GetNamespace(), m.GetName())] = o
}

func (s *server) ConfigMap(_ context.Context, ns, name string) (*corev1.ConfigMap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[fmt.Sprintf("%T/%s/%s", &corev1.ConfigMap{}, ns, name)]; ok {
		return o.(*corev1.ConfigMap), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (s *server) Secret(_ context.Context, ns, name string) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[fmt.Sprintf("%T/%s/%s", &corev1.Secret{}, ns, name)]; ok {
		return o.(*corev1.Secret), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (s *server) Claim(_ context.Context, ns, name string) (*corev1.PersistentVolumeClaim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[fmt.Sprintf("%T/%s/%s", &corev1.PersistentVolumeClaim{}, ns, name)]; ok {
		return o.(*corev1.PersistentVolumeClaim), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
}

func (s *server) Volume(_ context.Context, name string) (*corev1.PersistentVolume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[fmt.Sprintf("%T//%s", &corev1.PersistentVolume{}, name)]; ok {
		return o.(*corev1.PersistentVolume), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumes"), name)
}

// forget removes an object.
func (s *server) forget(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := o.(metav1.Object)
	delete(s.objects, fmt.Sprintf("%T/%s/%s", o, m.GetNamespace(), m.GetName()))
}

func (s *server) Token(_ context.Context, ns, account string, r authenticationv1.TokenRequestSpec) (authenticationv1.TokenRequestStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	if s.err != nil {
		return authenticationv1.TokenRequestStatus{}, s.err
	}
	s.tokens++
	return authenticationv1.TokenRequestStatus{
		Token:               fmt.Sprintf("token-%d of %s/%s", s.tokens, ns, account),
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(s.life)),
	}, nil
}

// needMounts skips tests that need root on Linux, unless that counts as a failure.
func needMounts(t testing.TB) {
	t.Helper()
	if runtime.GOOS == "linux" && os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs root on Linux")
	}
	t.Skip("needs root on Linux")
}

// id returns n as a user or group to give files to, or root if there are no others.
func id(t testing.TB, n int) int {
	if fakeroot.CanChown(t) {
		return n
	}
	return 0
}

// node makes volumes in a directory of its own, and checks at the end that nothing is left of them, mounted or not.
func node(t testing.TB, s *server, o volume.Options) (v *volume.Volumes, dir string) {
	t.Helper()
	dir = scratch(t)
	return reopen(t, dir, s, o), dir
}

// scratch is a directory that must have no mounts when the test ends.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "volume") // some tests make and remove hundreds of pods
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // after the mounts, which are looked at first
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range mountsBelow(t, dir) {
			t.Errorf("still mounted: %s", m)
			detach(m)
		}
	})
	return dir
}

func reopen(t testing.TB, dir string, s *server, o volume.Options) *volume.Volumes {
	t.Helper()
	if os.Getuid() != 0 {
		o.Rootless = true
	}
	in := volume.Sources{}
	if s != nil {
		in.Objects, in.Tokens, in.Claims, in.CSI = s, s, s, s.csi
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(logTo{t}, nil))
	}
	v, err := volume.New(dir, in, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

type logTo struct{ t testing.TB }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// pod makes a pod with one container, which mounts each volume at /NAME.
func pod(volumes ...corev1.Volume) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid-1"},
		Spec:       corev1.PodSpec{ServiceAccountName: "default", Volumes: volumes, Containers: []corev1.Container{{Name: "main"}}},
	}
	for _, v := range volumes {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return p
}

func vol(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

func configMapVolume(name string, items ...corev1.KeyToPath) corev1.Volume {
	return vol(name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items,
	}})
}

func emptyDirVolume(name string, medium corev1.StorageMedium) corev1.Volume {
	return vol(name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}})
}

func hostPathVolume(name, path string) corev1.Volume {
	return vol(name, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}})
}

// apiAccess is the volume that admission adds to every pod.
func apiAccess() corev1.Volume {
	life := int64(3607)
	return vol("kube-api-access-x", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o644)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &life}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}})
}

func rootCA() *corev1.ConfigMap {
	return config("kube-root-ca.crt", "ca.crt", "CERTIFICATE")
}

func config(name string, pairs ...string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		m.Data[pairs[i]] = pairs[i+1]
	}
	return m
}

func request(p *corev1.Pod) kubelet.MountRequest {
	return kubelet.MountRequest{Pod: p, Container: &p.Spec.Containers[0], IPs: []string{"10.0.0.5"}, Hostname: p.Name}
}

func prepare(t testing.TB, v *volume.Volumes, p *corev1.Pod) {
	t.Helper()
	if err := v.Prepare(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func mounts(t testing.TB, v *volume.Volumes, r kubelet.MountRequest) map[string]cri.Mount {
	t.Helper()
	list, err := v.Mounts(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]cri.Mount{}
	for _, m := range list {
		byPath[m.ContainerPath] = m
	}
	return byPath
}

// release releases the pod and checks that nothing of it is left.
func release(t testing.TB, v *volume.Volumes, dir string, uid types.UID) {
	t.Helper()
	if err := v.Release(context.WithoutCancel(t.Context()), uid); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "pods")); len(left) > 0 {
		t.Errorf("left after release: %v", left)
	}
	if v.Remembered() != 0 {
		t.Errorf("%d pods are remembered after release", v.Remembered())
	}
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t testing.TB, data string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func mode(t testing.TB, path ...string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
