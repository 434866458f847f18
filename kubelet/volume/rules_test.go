package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume"
)

// TestWhoReadsTokens: a token can be read by the user that all containers run as, or by everybody.
func TestWhoReadsTokens(t *testing.T) {
	user := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		pod        *int64
		containers []*int64
		want       fs.FileMode
	}{
		"nobody said":            {nil, []*int64{nil}, 0o644},
		"the pod's":              {user(5), []*int64{nil, nil}, 0o600},
		"a container's":          {nil, []*int64{user(5)}, 0o600},
		"the same of two":        {nil, []*int64{user(5), user(5)}, 0o600},
		"of one of two":          {nil, []*int64{user(5), nil}, 0o644},
		"of the other":           {nil, []*int64{nil, user(5)}, 0o644},
		"different ones":         {nil, []*int64{user(5), user(6)}, 0o644},
		"another than the pod's": {user(5), []*int64{user(6), nil}, 0o644},
		"the same as the pod's":  {user(5), []*int64{user(5), nil}, 0o600},
		"another's in the end":   {user(5), []*int64{nil, nil, nil, user(6)}, 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			v, dir := node(t, newServer(rootCA()), volume.Options{Rootless: true})
			p := pod(apiAccess())
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: c.pod}
			for i, u := range c.containers {
				as := &corev1.SecurityContext{RunAsUser: u}
				switch i {
				case 0:
					p.Spec.Containers[0].SecurityContext = as
				case 1:
					p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "more", SecurityContext: as})
				default: // to debug the others
					p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
						EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", SecurityContext: as},
					})
				}
			}
			prepare(t, v, p)
			if got := mode(t, v.Path(p, "kube-api-access-x"), "token"); got != c.want {
				t.Errorf("the mode is %v", got)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestHostsFileFollows: a pod's hosts file has its present addresses.
func TestHostsFileFollows(t *testing.T) {
	v, _ := node(t, nil, volume.Options{Rootless: true})
	r := request(pod())
	for _, ip := range []string{"10.0.0.5", "10.0.0.6", "10.0.0.6"} {
		r.IPs = []string{ip}
		if got := read(t, mounts(t, v, r)["/etc/hosts"].HostPath); !strings.HasSuffix(got, "\n"+ip+"\tweb\n") {
			t.Errorf("the file is %s", got)
		}
	}
	dead := errors.New("the process is dead")
	v.SetStep(func(op, _ string) error {
		if op == "chmod" {
			return dead
		}
		return nil
	})
	if _, err := v.Mounts(t.Context(), r); !errors.Is(err, dead) {
		t.Errorf("a file whose mode cannot be put right: %v", err)
	}
	v, _ = node(t, nil, volume.Options{Rootless: true})
	v.SetStep(func(op, _ string) error {
		if op == "mkdir" {
			return dead
		}
		return nil
	})
	if _, err := v.Mounts(t.Context(), r); !errors.Is(err, dead) {
		t.Errorf("a file without a directory: %v", err)
	}
}

// TestOver: with a context that is over, nothing is set up or removed.
func TestOver(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	v, dir := node(t, nil, volume.Options{Rootless: true})
	p := pod(emptyDirVolume("d", ""))
	if err := v.Prepare(over, p); !errors.Is(err, context.Canceled) || v.Path(p, "d") != "" && exists(v.Path(p, "d")) {
		t.Errorf("set up: %v", err)
	}
	prepare(t, v, p)
	if err := v.Release(over, p.UID); !errors.Is(err, context.Canceled) || !exists(v.Path(p, "d")) {
		t.Errorf("removed: %v", err)
	}
	release(t, v, dir, p.UID)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestOddNames: names that are no names of files are refused, wherever they come from.
func TestOddNames(t *testing.T) {
	v, _ := node(t, nil, volume.Options{Rootless: true})
	for _, name := range []string{"..", "a/b", ""} {
		if err := v.Prepare(t.Context(), pod(emptyDirVolume(name, ""))); err == nil {
			t.Errorf("a volume %q", name)
		}
		p := pod(emptyDirVolume("d", ""))
		p.UID = types.UID(name)
		if v.Prepare(t.Context(), p) == nil || v.Release(t.Context(), p.UID) == nil {
			t.Errorf("a pod %q", name)
		}
		if _, err := v.Mounts(t.Context(), request(pod(emptyDirVolume(name, "")))); err == nil || err.Error() != fmt.Sprintf("cannot find volume %q to mount into container %q", name, "main") {
			t.Errorf("a mount of volume %q: %v", name, err)
		}
	}
	p := pod(emptyDirVolume("d", ""))
	prepare(t, v, p)
	for subPath, want := range map[string]string{
		"/abs": "error SubPath `/abs` must not be an absolute path", "a/../..": "unable to provision SubPath `a/../..`: must not contain '..'",
		"a\x00": `unable to provision SubPath "a\x00": must not contain a zero byte`,
	} {
		p.Spec.Containers[0].VolumeMounts[0].SubPath = subPath
		if _, err := v.Mounts(t.Context(), request(p)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", subPath, err)
		}
	}
}

// TestUnknownRemains: what cannot be told to be unmounted stays.
func TestUnknownRemains(t *testing.T) {
	for name, file := range map[string]string{"no directory": "pods/uid-1/volumes/kubernetes.io~nfs", "no plugin": "pods/uid-1/volumes/kubernetes.io~csi/x/file"} {
		v, dir := node(t, nil, volume.Options{Rootless: true})
		path := write(t, "", dir, file)
		if err := v.Release(t.Context(), "uid-1"); err == nil || !strings.HasPrefix(err.Error(), "unmounting volumes of pod uid-1: ") || !exists(path) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "pods/uid-1/volumes")); err != nil {
			t.Fatal(err)
		}
		release(t, v, dir, "uid-1")
	}
	v, dir := node(t, nil, volume.Options{Rootless: true})
	write(t, "", dir, "pods")
	if _, err := v.Orphans(func(types.UID) bool { return false }); err == nil {
		t.Error("a file has orphans")
	}
}
