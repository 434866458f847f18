package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

var errDead = errors.New("the process is dead")

// everything is a pod with a volume of each kind, some mounted by sub-path.
func everything(t testing.TB, host string) *corev1.Pod {
	p := pod(
		emptyDirVolume("disk", ""), emptyDirVolume("memory", corev1.StorageMediumMemory), configMapVolume("config"),
		vol("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}),
		apiAccess(), hostPathVolume("host", host),
	)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(id(t, 2000))), RunAsUser: new(int64(id(t, 1000)))}
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts,
		corev1.VolumeMount{Name: "host", MountPath: "/h", SubPath: "sub/dir"},
		corev1.VolumeMount{Name: "host", MountPath: "/f", SubPath: "file"},
		corev1.VolumeMount{Name: "disk", MountPath: "/d", SubPath: "a/b"},
		corev1.VolumeMount{Name: "memory", MountPath: "/m", SubPath: "c"},
		corev1.VolumeMount{Name: "config", MountPath: "/c", SubPath: "key"},
		corev1.VolumeMount{Name: "disk", MountPath: "/config/nested"},
	)
	return p
}

// life goes through the whole life of a pod's volumes, as far as it gets, and returns errors.
func life(t *testing.T, v *volume.Volumes, s *server, p *corev1.Pod) error {
	t.Helper()
	for _, value := range []string{"one", "two"} {
		s.put(config("config", "key", value, "only-"+value, value))
		if err := v.Prepare(t.Context(), p); err != nil {
			return err
		}
		if _, err := v.Mounts(t.Context(), request(p)); err != nil {
			return err
		}
	}
	return v.Release(t.Context(), p.UID)
}

func checkEverything(t *testing.T, got map[string]cri.Mount) {
	t.Helper()
	for at, want := range map[string]string{
		"/config/key": "two", "/config/only-two": "two", "/secret/s": "S", "/kube-api-access-x/ca.crt": "CERTIFICATE", "/host/file": "host's", "/f": "host's", "/c": "two",
	} {
		dir, file := filepath.Dir(at), filepath.Base(at)
		if dir == "/" {
			dir, file = at, ""
		}
		if data := read(t, got[dir].HostPath, file); data != want {
			t.Errorf("%s: %q, want %q", at, data, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(got["/config"].HostPath, "only-one")); err == nil {
		t.Error("a key that is gone is still there")
	}
	for _, dir := range []string{"/disk", "/memory"} {
		if m := mode(t, got[dir].HostPath); m.Perm() != 0o777 || m&os.ModeSetgid == 0 {
			t.Errorf("%s: %v", dir, m)
		}
		if _, gid := owner(t, got[dir].HostPath); gid != id(t, 2000) {
			t.Errorf("%s belongs to group %d", dir, gid)
		}
	}
	token := filepath.Join(got["/kube-api-access-x"].HostPath, "..data", "token")
	if uid, gid := owner(t, token); uid != id(t, 1000) || gid != id(t, 2000) || mode(t, token) != 0o640 {
		t.Errorf("token: %d:%d %v", uid, gid, mode(t, token))
	}
	for at, m := range got {
		if entries, err := os.ReadDir(m.HostPath); err == nil && at == "/config" {
			for _, e := range entries {
				if e.Name() == "..data_tmp" {
					t.Error("a link of a dead write is left")
				}
			}
			if len(entries) != 5 { // ..data, its directory, two keys, the place for the nested volume
				t.Errorf("%s has %v", at, entries)
			}
		}
	}
}

// TestKilledAnywhere kills the process before each change to the file system, and lets another one continue, or clean
// up.
func TestKilledAnywhere(t *testing.T) {
	needMounts(t)
	host := t.TempDir()
	write(t, "host's", host, "file")
	write(t, "deep", host, "sub/dir/file")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "secret"}, Data: map[string][]byte{"s": []byte("S")}}
	total := 0
	{
		s := newServer(rootCA(), secret)
		v, dir := node(t, s, volume.Options{})
		v.SetStep(func(string, string) error { total++; return nil })
		if err := life(t, v, s, everything(t, host)); err != nil {
			t.Fatal(err)
		}
		release(t, v, dir, "uid-1")
	}
	if total < 100 {
		t.Fatalf("only %d steps", total)
	}
	for n := range total + total/3 { // another continues after each step, and cleans up after every third
		dieAt, goOn := n+1, true
		if n >= total {
			dieAt, goOn = 3*(n-total)+2, false
		}
		s := newServer(rootCA(), secret)
		v, dir := node(t, s, volume.Options{})
		p := everything(t, host)
		step, last := 0, ""
		v.SetStep(func(op, path string) error {
			if step++; step < dieAt {
				return nil
			}
			if last == "" {
				last = fmt.Sprint(op, " ", path)
			}
			return errDead
		})
		if err := life(t, v, s, p); err == nil || last == "" {
			t.Fatalf("step %d: %v", dieAt, err)
		}
		next := reopen(t, dir, s, volume.Options{})
		orphans, err := next.Orphans(func(types.UID) bool { return false })
		if err != nil || len(orphans) > 1 {
			t.Fatalf("step %d: orphans %v, %v", dieAt, orphans, err)
		}
		if goOn {
			s.put(config("config", "key", "two", "only-two", "two"))
			prepare(t, next, p)
			checkEverything(t, mounts(t, next, request(p)))
		}
		release(t, next, dir, p.UID)
		if left := mountsBelow(t, dir); len(left) > 0 {
			t.Fatalf("step %d: mounted: %v", dieAt, left)
		}
		if t.Failed() {
			t.Fatalf("died at step %d: %s", dieAt, last)
		}
	}
	if read(t, host, "file") != "host's" || read(t, host, "sub/dir/file") != "deep" {
		t.Error("a host's file was changed")
	}
	t.Logf("%d steps", total)
}

// TestFailsOnceAnywhere: a failure of any single change is returned by the call that made it, and the next calls
// complete the work.
func TestFailsOnceAnywhere(t *testing.T) {
	needMounts(t)
	host := t.TempDir()
	write(t, "host's", host, "file")
	write(t, "deep", host, "sub/dir/file")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "secret"}, Data: map[string][]byte{"s": []byte("S")}}
	for n, more := 0, true; more; n++ {
		s := newServer(rootCA(), secret, config("config", "key", "two", "only-two", "two"))
		v, dir := node(t, s, volume.Options{})
		p := everything(t, host)
		step, failed := 0, ""
		v.SetStep(func(op, path string) error {
			if step++; step-1 != n {
				return nil
			}
			failed = op + " " + path
			return errDead
		})
		told := func(err error) bool {
			t.Helper()
			if (failed != "") != (err != nil) { // some errors have no details
				t.Errorf("%s: %v", failed, err)
			}
			return failed != ""
		}
		if !told(v.Prepare(t.Context(), p)) {
			_, err := v.Mounts(t.Context(), request(p))
			if !told(err) && !told(v.Release(t.Context(), p.UID)) {
				more = false
			}
		}
		v.SetStep(nil)
		prepare(t, v, p)
		checkEverything(t, mounts(t, v, request(p)))
		release(t, v, dir, p.UID)
		if t.Failed() {
			t.Fatalf("at step %d: %s", n, failed)
		}
	}
}

// TestSubPathWhosePlaceIsGone: what cannot be mounted is an error, not a directory of the node's in its place.
func TestSubPathWhosePlaceIsGone(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{Logger: quiet()})
	p := subPathPod(emptyDirVolume("e", ""), "a")
	prepare(t, v, p)
	v.SetStep(func(op, path string) error {
		if op == "bind" {
			return os.Remove(path)
		}
		return nil
	})
	const want = `failed to prepare subPath for volumeMount "e" of container "main"`
	if _, err := v.Mounts(t.Context(), request(p)); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	v.SetStep(nil)
	write(t, "data", mounts(t, v, request(p))["/0"].HostPath, "file")
	if read(t, v.Path(p, "e"), "a/file") != "data" {
		t.Error("the sub-path is not mounted afterwards")
	}
	release(t, v, dir, p.UID)
}
