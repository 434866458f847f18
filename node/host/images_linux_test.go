package host_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/internal/nodetest"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// absent is an image of a registry that nobody serves; mirrors may have it.
const absent = "127.0.0.1:1/library/busybox:latest"

// mirror is a registry on loopback that has nothing, has images, or does not answer.
type mirror struct {
	*httptest.Server
	mu   sync.Mutex
	next http.Handler
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{next: http.NotFoundHandler()}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		next := m.next
		m.mu.Unlock()
		query := r.URL.Query()
		query.Del("ns") // whatever registry is meant
		r.URL.RawQuery = query.Encode()
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

func (m *mirror) serve(h http.Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = h
}

func (m *mirror) options() nodetest.Options {
	return nodetest.Options{Node: func(o *bundled.Options, _ *nodetools.Tools) { o.Mirrors = []string{m.URL} }}
}

func waitingFor(reason string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) > 0 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == reason
	}
}

func puller(name string) *corev1.Pod {
	c := nodetest.Sleeper("c")
	c.Image = absent
	return nodetest.Pod(name, c)
}

// TestImageDoesNotExist: a pod whose image nobody has says so, and starts when somebody has it.
func TestImageDoesNotExist(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	w := nodetest.Start(t, m.options())
	w.Create(puller("waits"))
	w.Create(puller("deleted"))
	pod := w.Until("waits", "without an image", waitingFor("ErrImagePull"))
	why := pod.Status.ContainerStatuses[0].State.Waiting.Message
	if !strings.Contains(why, `failed to pull and unpack image "`+absent+`"`) || pod.Status.Phase != corev1.PodPending {
		t.Errorf("%s, waiting because of %q", pod.Status.Phase, why)
	}
	pod = w.Until("waits", "backing off", waitingFor("ImagePullBackOff"))
	if got, want := pod.Status.ContainerStatuses[0].State.Waiting.Message, `Back-off pulling image "`+absent+`": ErrImagePull: `+why; got != want {
		t.Errorf("waiting because of %q, want %q", got, want)
	}
	w.Event("waits", "Failed", `Failed to pull image "`+absent+`": `)
	w.Event("waits", "Failed", "Error: ErrImagePull")
	w.Event("waits", "BackOff", `Back-off pulling image "`+absent+`"`)
	w.Event("waits", "Failed", "Error: ImagePullBackOff")
	within(t, w, "deleted", 12e9)

	archive, err := ociimage.Busybox(w.Context, w.Images(), t.Output())
	w.Check(err)
	images, err := ociimage.NewRegistry(archive)
	w.Check(err)
	m.serve(images)
	pod = w.Ready("waits")
	if s := pod.Status.ContainerStatuses[0]; s.RestartCount != 0 || s.Image != absent {
		t.Errorf("the container's status is %+v", s)
	}
	w.Event("waits", "Pulled", "Successfully pulled image")
	w.DeleteAll("waits")
}

// TestDeletedWhileItStarts: pods that are stuck in their start, deleted by force and not.
func TestDeletedWhileItStarts(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	w := nodetest.Start(t, m.options())
	asked := make(chan struct{}, 100)
	m.serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	w.Create(puller("forced"))
	w.Create(puller("polite"))
	<-asked
	w.Event("polite", "Pulling", absent)
	w.Delete("forced", 0)
	w.Gone("forced")
	within(t, w, "polite", 12e9)
	w.Clean()
}
