package static_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/static"
	"github.com/keelson-dev/keelson/podspec/origin"
)

func manifest(name, more string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  containers:\n  - name: c\n    image: nginx\n" + more
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newDirectory(t *testing.T, path string, o static.Options) *static.Directory {
	t.Helper()
	d, err := static.New(path, "Node1", o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func list(t *testing.T, d *static.Directory) []*corev1.Pod {
	t.Helper()
	pods, _, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return strings.Join(out, " ")
}

func TestWhatBecomesOfAManifest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "web.yaml", manifest("web", "  tolerations:\n  - effect: NoExecute\n    operator: Exists\n"))
	d := newDirectory(t, dir, static.Options{Prepare: func(p *corev1.Pod) error {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		return nil
	}})
	pod := list(t, d)[0]
	if pod.Name != "web-node1" || pod.Namespace != "default" || pod.Spec.NodeName != "Node1" || pod.Status.Phase != corev1.PodPending ||
		pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || len(pod.UID) != 32 || pod.Generation != 1 {
		t.Errorf("got %+v", pod)
	}
	if a := pod.Annotations; a["kubernetes.io/config.source"] != "file" || a["kubernetes.io/config.hash"] != string(pod.UID) || len(a) != 3 {
		t.Errorf("got annotations %v", a)
	}
	if _, err := time.Parse(time.RFC3339Nano, pod.Annotations["kubernetes.io/config.seen"]); err != nil {
		t.Error(err)
	}
	want := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0] != want {
		t.Errorf("got tolerations %v", pod.Spec.Tolerations)
	}
	if !origin.Static(pod) || origin.Mirror(pod) {
		t.Error("it is a static pod")
	}
	if again := list(t, d)[0]; again != pod {
		t.Error("the same content is the same pod")
	}
	if later := list(t, newDirectory(t, dir, static.Options{}))[0]; later.UID != pod.UID {
		t.Errorf("after a restart it has UID %s, before %s", later.UID, pod.UID)
	}
}

// TestOrderAndTolerations: pods come in the order of their names, and each tolerates what evicts, once.
func TestOrderAndTolerations(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 12 {
		more := map[int]string{1: "  tolerations:\n  - operator: Exists\n    effect: NoExecute\n"}[i]
		write(t, dir, fmt.Sprintf("%02d.yaml", 12-i), manifest(fmt.Sprintf("p%02d", i), more))
		want = append(want, fmt.Sprintf("default/p%02d-node1", i))
	}
	pods := list(t, newDirectory(t, dir, static.Options{}))
	if got := names(pods); got != strings.Join(want, " ") {
		t.Errorf("got %s", got)
	}
	for _, pod := range pods {
		if all := pod.Spec.Tolerations; len(all) != 1 || all[0] != (corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}) {
			t.Errorf("%s tolerates %v", pod.Name, all)
		}
	}
}

// TestGenerations: a pod with a UID of its own gets a new generation with each change, and only then.
func TestGenerations(t *testing.T) {
	dir := t.TempDir()
	d := newDirectory(t, dir, static.Options{})
	for i, more := range []string{"", "  priority: 1\n", "  priority: 2\n", "  priority: 2\n# with a remark\n", "  priority: 3\n"} {
		write(t, dir, "a.yaml", strings.Replace(manifest("web", more), "metadata:\n", "metadata:\n  uid: own\n", 1))
		if got, want := list(t, d)[0].Generation, []int64{1, 2, 3, 3, 4}[i]; got != want {
			t.Errorf("%q has generation %d, not %d", more, got, want)
		}
	}
}

func TestUIDs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	seen := map[string]string{}
	add := func(what, node string) {
		t.Helper()
		d, err := static.New(path, node, static.Options{})
		if err != nil {
			t.Fatal(err)
		}
		uid := string(list(t, d)[0].UID)
		if other, ok := seen[uid]; ok {
			t.Errorf("%s has the UID of %s", what, other)
		}
		seen[uid] = what
	}
	write(t, dir, "a.yaml", manifest("web", ""))
	add("the first", "n1")
	add("another node", "n2")
	write(t, dir, "a.yaml", manifest("web", "  priority: 1\n"))
	add("another content", "n1")
	path = filepath.Join(dir, "b.yaml")
	write(t, dir, "b.yaml", manifest("web", ""))
	add("another file", "n1")
}

func TestFilesThatAreNoGood(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a-good.yaml":   manifest("good", ""),
		"b.json":        `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "json", "namespace": "ns"}, "spec": {"containers": []}}`,
		"c-broken.yaml": ": : :",
		"d-kind.yaml":   strings.Replace(manifest("x", ""), "Pod", "Service", 1),
		"e-empty.yaml":  "",
		"f-noname.yaml": manifest(`""`, ""),
		"g-twice.yaml":  manifest("good", ""),
		"h-secret.yaml": manifest("x", "  imagePullSecrets:\n  - name: s\n"),
		"i-wrong.yaml":  manifest("refused", ""),
		"j-type.yaml":   manifest("x", "  hostNetwork: perhaps\n"),
		"k-name.yaml":   manifest("Not_A_Name", ""),
		"l-space.yaml":  strings.Replace(manifest("x", ""), "metadata:\n", "metadata:\n  namespace: ../x\n", 1),
		"m-uid.yaml":    strings.Replace(manifest("x", ""), "metadata:\n", "metadata:\n  uid: ../../x\n", 1),
		"n-alias.yaml":  "a: &a " + strings.Repeat("x", 1<<17) + "\nb: [" + strings.Repeat("*a, ", 1<<15) + "]\n" + manifest("x", ""),
		"o-large.yaml":  manifest("large", "") + strings.Repeat("#"+strings.Repeat(" ", 1023)+"\n", 10<<10+1),
		".hidden.yaml":  manifest("hidden", ""),
	} {
		write(t, dir, name, content)
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	d := newDirectory(t, dir, static.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Prepare: func(p *corev1.Pod) error {
			if p.Name == "refused-node1" {
				return errors.New("I do not like it")
			}
			return nil
		},
	})
	if got, want := names(list(t, d)), "default/good-node1 ns/json-node1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for file, problem := range map[string]string{
		"c-broken": "couldn't parse as pod(", "d-kind": `of apiVersion \"v1\" and kind \"Service\"`, "e-empty": "kind",
		"f-noname": "invalid pod: name is needed for the pod", "g-twice": "there is another pod good-node1 in namespace default",
		"h-secret": "static pods may not reference secrets", "i-wrong": "invalid pod: I do not like it", "j-type": "couldn't parse as pod(",
		"k-name": `metadata.name: Invalid value: \"Not_A_Name-node1\"`, "l-space": `metadata.namespace: Invalid value: \"../x\"`,
		"n-alias": "its aliases expand to more than 10485760 bytes",
		"o-large": "the manifest is larger than 10485760 bytes",
		"m-uid":   `metadata.uid: Invalid value: \"../../x\": must not be a path`,
	} {
		found := false
		for line := range strings.Lines(log.String()) {
			found = found || strings.Contains(line, file) && strings.Contains(line, problem)
		}
		if !found {
			t.Errorf("nothing said of %s: %q in\n%s", file, problem, &log)
		}
	}
	lines := strings.Count(log.String(), "\n")
	list(t, d)
	if lines != 13 || strings.Count(log.String(), "\n") != lines {
		t.Errorf("told more than once: %d lines, then\n%s", lines, &log)
	}
}

func TestFileThatBecomesBadKeepsItsPod(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", manifest("web", ""))
	d := newDirectory(t, dir, static.Options{})
	pod := list(t, d)[0]
	write(t, dir, "a.yaml", "half a fi")
	if got := list(t, d); len(got) != 1 || got[0] != pod {
		t.Errorf("got %v", got)
	}
	write(t, dir, "a.yaml", manifest("web", "# with a remark\n"))
	if got := list(t, d); len(got) != 1 || got[0] != pod {
		t.Errorf("got %v", got)
	}
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := list(t, d); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestPathsThatAreNoDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", manifest("web", ""))
	if got := names(list(t, newDirectory(t, filepath.Join(dir, "a.yaml"), static.Options{}))); got != "default/web-node1" {
		t.Errorf("got %s", got)
	}
	if got := list(t, newDirectory(t, filepath.Join(dir, "nothing"), static.Options{})); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if _, _, err := newDirectory(t, os.DevNull, static.Options{}).List(t.Context()); err == nil {
		t.Error("a device is no directory")
	}
	for _, args := range [][2]string{{"", "n"}, {"p", ""}} {
		if _, err := static.New(args[0], args[1], static.Options{}); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// follower collects what an informer tells of a directory.
type follower struct{ told chan string }

func follow(t *testing.T, d *static.Directory) follower {
	t.Helper()
	f := follower{make(chan string, 100)}
	pods := informer.New(d, informer.Options{})
	tell := func(what string, pod *corev1.Pod) {
		f.told <- fmt.Sprintf("%s %s g%d p%d", what, pod.Name, pod.Generation, deref(pod.Spec.Priority))
	}
	pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added:   func(p *corev1.Pod) { tell("added", p) },
		Updated: func(old, p *corev1.Pod) { tell("updated", p); _ = old },
		Deleted: func(p *corev1.Pod) { tell("deleted", p) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := pods.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); group.Wait() })
	if err := pods.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return f
}

func deref(p *int32) int32 {
	if p == nil {
		return 0
	}
	return *p
}

func (f follower) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-f.told:
			if got != w {
				t.Fatalf("got %q, want %q", got, w)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("nothing came, want %q", w)
		}
	}
}

func TestChangesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", manifest("a", ""))
	f := follow(t, newDirectory(t, dir, static.Options{Period: time.Hour}))
	f.expect(t, "added a-node1 g1 p0")

	write(t, dir, ".b.tmp", manifest("b", ""))
	if err := os.Rename(filepath.Join(dir, ".b.tmp"), filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "added b-node1 g1 p0")

	// Another content is another pod of the same name.
	write(t, dir, ".a.tmp", manifest("a", "  priority: 5\n"))
	if err := os.Rename(filepath.Join(dir, ".a.tmp"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "deleted a-node1 g1 p0", "added a-node1 g1 p5")

	// A pod with a UID of its own is changed in place.
	own := strings.Replace(manifest("c", ""), "metadata:\n", "metadata:\n  uid: mine\n", 1)
	write(t, dir, ".c.tmp", own)
	if err := os.Rename(filepath.Join(dir, ".c.tmp"), filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "added c-node1 g1 p0")
	write(t, dir, ".c.tmp", own+"  priority: 7\n")
	if err := os.Rename(filepath.Join(dir, ".c.tmp"), filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "updated c-node1 g2 p7")

	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "deleted b-node1 g1 p0")
}

func TestDirectoryThatComesAndGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	f := follow(t, newDirectory(t, dir, static.Options{Period: 10 * time.Millisecond}))
	for range 3 {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, dir, ".a", manifest("a", ""))
		if err := os.Rename(filepath.Join(dir, ".a"), filepath.Join(dir, "a.yaml")); err != nil {
			t.Fatal(err)
		}
		f.expect(t, "added a-node1 g1 p0")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		f.expect(t, "deleted a-node1 g1 p0")
	}
}

// TestDirectoryThatIsNotThereYet: it is looked for every second.
func TestDirectoryThatIsNotThereYet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory(t, dir, static.Options{})
		_, version, err := d.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.Watch(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		if events, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || len(events) > 0 {
			t.Errorf("%v, %v", events, err)
		}
	})
}

func TestStreams(t *testing.T) {
	dir := t.TempDir()
	d := newDirectory(t, dir, static.Options{})
	if _, err := d.Watch(t.Context(), "old"); !errors.Is(err, informer.ErrExpired) {
		t.Errorf("got %v", err)
	}
	_, version, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What happened before the watch is told.
	write(t, dir, "a.yaml", manifest("a", ""))
	s, err := d.Watch(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != informer.Added || events[0].Version == version {
		t.Errorf("got %+v, %v", events, err)
	}
	if _, err := d.Watch(t.Context(), version); !errors.Is(err, informer.ErrExpired) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.Close()
	s.Close()
	if _, err := s.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if _, _, err := d.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := d.Watch(ctx, version); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestReferencesToTheAPI(t *testing.T) {
	volume := func(text string) string { return "  volumes:\n  - name: v\n    " + text + "\n" }
	env := func(text string) string { return "    env:\n    - name: E\n      valueFrom: " + text + "\n" }
	for more, want := range map[string]string{
		"":                                       "",
		"  serviceAccountName: s\n":              "serviceaccounts",
		"  imagePullSecrets: [{}]\n":             "",
		env("{secretKeyRef: {name: s, key: k}}"): "secrets",
		env("{configMapKeyRef: {name: s, key: k}}"):                                           "configmaps",
		env("{fieldRef: {fieldPath: metadata.name}}"):                                         "",
		"    envFrom: [{secretRef: {name: s}}]\n":                                             "secrets",
		"    envFrom: [{configMapRef: {name: s}}]\n":                                          "configmaps",
		"  initContainers: [{name: i, envFrom: [{configMapRef: {name: s}}]}]\n":               "configmaps",
		"  ephemeralContainers: [{name: i, envFrom: [{secretRef: {name: s}}]}]\n":             "secrets",
		"  resourceClaims: [{name: r}]\n":                                                     "resourceclaims",
		volume("emptyDir: {}"):                                                                "",
		volume("hostPath: {path: /x}"):                                                        "",
		volume("downwardAPI: {}"):                                                             "",
		volume("image: {reference: x}"):                                                       "",
		volume("nfs: {server: s, path: /}"):                                                   "",
		volume("secret: {secretName: s}"):                                                     "secrets",
		volume("secret: {}"):                                                                  "secrets (via secret volumes)",
		volume("configMap: {name: s}"):                                                        "configmaps",
		volume("configMap: {}"):                                                               "configmaps (via configmap volumes)",
		volume("csi: {driver: d}"):                                                            "csidrivers (via CSI volumes)",
		volume("csi: {driver: d, nodePublishSecretRef: {name: s}}"):                           "secrets",
		volume("glusterfs: {endpoints: e}"):                                                   "endpoints (via glusterFS volumes)",
		volume("persistentVolumeClaim: {claimName: c}"):                                       "persistentvolumeclaims",
		volume("ephemeral: {}"):                                                               "persistentvolumeclaims (via ephemeral volumes)",
		volume("azureFile: {secretName: s, shareName: share}"):                                "secrets",
		volume("azureFile: {shareName: share}"):                                               "secrets (via azureFile volumes)",
		volume("rbd: {secretRef: {name: s}}"):                                                 "secrets",
		volume("rbd: {image: i}"):                                                             "",
		volume("cephfs: {secretRef: {name: s}}"):                                              "secrets",
		volume("cinder: {secretRef: {name: s}}"):                                              "secrets",
		volume("flexVolume: {secretRef: {name: s}}"):                                          "secrets",
		volume("scaleIO: {secretRef: {name: s}}"):                                             "secrets",
		volume("iscsi: {secretRef: {name: s}}"):                                               "secrets",
		volume("storageos: {secretRef: {name: s}}"):                                           "secrets",
		volume("projected: {sources: [{downwardAPI: {}}]}"):                                   "",
		volume("projected: {sources: [{secret: {name: s}}]}"):                                 "secrets",
		volume("projected: {sources: [{secret: {}}]}"):                                        "secrets (via projected volumes)",
		volume("projected: {sources: [{configMap: {name: s}}]}"):                              "configmaps",
		volume("projected: {sources: [{configMap: {}}]}"):                                     "configmaps (via projected volumes)",
		volume("projected: {sources: [{downwardAPI: {}}, {serviceAccountToken: {path: p}}]}"): "serviceaccounts (via projected volumes)",
		volume("projected: {sources: [{clusterTrustBundle: {path: p}}]}"):                     "clustertrustbundles",
		volume("projected: {sources: [{podCertificate: {signerName: s, keyType: k}}]}"):       "podcertificates",
		volume("projected: {sources: [{}]}"):                                                  `!unknown source for projected volume "v"`,
		volume("unheardOf: {}"):                                                               `!unknown volume type for volume  "v"`,
	} {
		t.Run(strings.TrimSpace(more), func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "a.yaml", manifest("web", more))
			var log bytes.Buffer
			got := list(t, newDirectory(t, dir, static.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))}))
			text, unknown := strings.CutPrefix(want, "!")
			if want != "" && !unknown {
				text = "static pods may not reference " + want
			}
			quoted := strings.ReplaceAll(text, `"`, `\"`)
			if (len(got) == 1) != (want == "") || !strings.Contains(log.String(), `"problem":"`+quoted+`"`) && want != "" {
				t.Errorf("got %v, log %s", names(got), &log)
			}
		})
	}
}

// FuzzManifest: no file stops the others from being read.
func FuzzManifest(f *testing.F) {
	f.Add(manifest("a", ""))
	f.Add(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","annotations":null},"spec":{"tolerations":[{}]}}`)
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		write(t, dir, "fuzz.yaml", content)
		write(t, dir, "good.yaml", manifest("the-good-one", ""))
		pods := list(t, newDirectory(t, dir, static.Options{}))
		if !strings.Contains(names(pods), "/the-good-one-node1") {
			t.Errorf("got %s", names(pods))
		}
		for _, p := range pods {
			if !strings.HasSuffix(p.Name, "-node1") || p.Spec.NodeName != "Node1" || p.UID == "" {
				t.Errorf("got %+v", p)
			}
		}
	})
}
