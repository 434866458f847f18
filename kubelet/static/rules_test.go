package static_test

import (
	"errors"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/static"
	"github.com/keelson-dev/keelson/podspec/origin"
)

// What a pod that was taken from an API says of itself there is of no concern here.
func TestManifestOfAPodOfTheAPI(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", `apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: ns
  uid: own
  resourceVersion: "7"
  deletionTimestamp: "2026-01-01T00:00:00Z"
  deletionGracePeriodSeconds: 30
  annotations: {kubernetes.io/config.mirror: x, kubernetes.io/config.source: api, note: text}
spec: {nodeName: another, containers: [{name: c, image: i}]}
status: {phase: Running, podIP: 10.0.0.5}
`)
	var log logged
	pods := list(t, newDirectory(t, dir, static.Options{Logger: log.logger()}))
	if len(pods) != 1 {
		t.Fatalf("%d pods: %s", len(pods), log.text())
	}
	pod := pods[0]
	if pod.ResourceVersion != "" || pod.DeletionTimestamp != nil || pod.DeletionGracePeriodSeconds != nil || pod.Kind != "" || pod.Status.PodIP != "" ||
		pod.Status.Phase != corev1.PodPending || pod.UID != "own" || pod.Namespace != "ns" || pod.Spec.NodeName != "Node1" {
		t.Errorf("%+v", pod)
	}
	if a := pod.Annotations; a["kubernetes.io/config.source"] != "file" || a["kubernetes.io/config.hash"] != "own" || a["note"] != "text" || origin.Mirror(pod) {
		t.Errorf("annotations %v", a)
	}
}

// A manifest that cannot be used is told of with the reason, once for as long as it stays.
func TestProblemsAreTold(t *testing.T) {
	dir := t.TempDir()
	var log logged
	refused := errors.New("refused")
	d := newDirectory(t, dir, static.Options{Logger: log.logger(), Prepare: func(p *corev1.Pod) error {
		if strings.HasPrefix(p.Name, "bad") {
			return refused
		}
		return nil
	}})
	if err := os.Symlink("nowhere", filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		"\t:":               "couldn't parse as pod(",
		"[1, 2]":            "couldn't parse as pod(",
		"kind: Pod\n":       `it is of apiVersion \"\" and kind \"Pod\"`,
		manifest("bad", ""): "invalid pod: refused",
		"apiVersion: v1\nkind: Pod\nspec: {containers: 7}\nmetadata: {name: x}\n": "couldn't parse as pod(",
		"apiVersion: v1\nkind: Pod\n": "invalid pod: name is needed for the pod",
	} {
		log.reset()
		write(t, dir, "a.yaml", content)
		for range 2 {
			if pods := list(t, d); len(pods) != 0 {
				t.Errorf("%q: %s", content, names(pods))
			}
		}
		if got := log.text(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) || !strings.Contains(got, "a.yaml") {
			t.Errorf("%q: logged %s", content, got)
		}
	}
	write(t, dir, "a.yaml", manifest("web", ""))
	if got := names(list(t, d)); got != "default/web-node1" {
		t.Errorf("got %s", got)
	}
	log.reset()
	if err := os.Chmod(filepath.Join(dir, "a.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, func() {
		if got := names(list(t, d)); got != "default/web-node1" || !strings.Contains(log.text(), "permission denied") {
			t.Errorf("got %s, logged %s", got, log.text())
		}
	})
	// A problem that the file itself has not is gone when it is over, and a link to nothing says nothing of its later file.
	if err := os.Chmod(filepath.Join(dir, "a.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a.yaml", manifest("bad", ""))
	list(t, d)
	refused = nil
	if got := names(list(t, d)); got != "default/bad-node1" {
		t.Errorf("what is not refused any more is not there: %s", got)
	}
	log.reset()
	write(t, dir, "nowhere", "")
	if list(t, d); !strings.Contains(log.text(), "b.yaml") {
		t.Errorf("a file that became empty: logged %s", log.text())
	}
}

// Mirrors need everything that they look at.
func TestWhatMirrorsNeed(t *testing.T) {
	pods := informer.New[*corev1.Pod](memory.New[*corev1.Pod](), informer.Options{})
	nodes := informer.New[*corev1.Node](memory.New[*corev1.Node](), informer.Options{})
	api := &server{}
	for name, create := range map[string]func() (*static.Mirrors, error){
		"static pods": func() (*static.Mirrors, error) {
			return static.NewMirrors(static.Sources{Pods: pods, Nodes: nodes}, api, "n", static.MirrorOptions{})
		},
		"pods": func() (*static.Mirrors, error) {
			return static.NewMirrors(static.Sources{Static: pods, Nodes: nodes}, api, "n", static.MirrorOptions{})
		},
		"nodes": func() (*static.Mirrors, error) {
			return static.NewMirrors(static.Sources{Static: pods, Pods: pods}, api, "n", static.MirrorOptions{})
		},
		"a client": func() (*static.Mirrors, error) {
			return static.NewMirrors(static.Sources{Static: pods, Pods: pods, Nodes: nodes}, nil, "n", static.MirrorOptions{})
		},
		"a node": func() (*static.Mirrors, error) {
			return static.NewMirrors(static.Sources{Static: pods, Pods: pods, Nodes: nodes}, api, "", static.MirrorOptions{})
		},
	} {
		if m, err := create(); err == nil || m != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A mirror that others deleted is made again, at once when it had been seen.
func TestMirrorThatIsDeleted(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.put("a")
		synctest.Wait()
		for range 3 {
			m.delete(*metav1.NewDeleteOptions(0))
			synctest.Wait()
			if got := m.mirrorHash(); got != "a" {
				m.Errorf("the mirror is of %q", got)
			}
			time.Sleep(time.Second)
		}
	})
}

// Streams that are closed, or whose readers went, end.
func TestStreamsEnd(t *testing.T) {
	d := newDirectory(t, t.TempDir(), static.Options{})
	_, version, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Watch(t.Context(), version+"0"); !errors.Is(err, informer.ErrExpired) {
		t.Errorf("another version: %v", err)
	}
	s, err := d.Watch(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, s.Close)
	if events, err := s.Next(t.Context()); !errors.Is(err, io.EOF) || len(events) != 0 {
		t.Errorf("%v, %v", events, err)
	}
	s.Close()
}

// logged is what was logged.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
