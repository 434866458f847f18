package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/upgrade"
)

// text answers with an error in plain text.
func text(w http.ResponseWriter, code int, format string, args ...any) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, format, args...) // a client that is gone is no error of ours
}

// named returns the pod that a path names, or answers that there is none.
func (s *Server) named(w http.ResponseWriter, r *http.Request) (*corev1.Pod, bool) {
	pod, ok := s.pods.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	if !ok {
		text(w, http.StatusNotFound, "pod does not exist")
		return nil, false
	}
	return pod, true
}

// uidOf returns a pod's UID in the runtime; for a mirror, that of the static pod.
func uidOf(pod *corev1.Pod) types.UID {
	if original := pod.Annotations[corev1.MirrorPodAnnotationKey]; original != "" {
		return types.UID(original)
	}
	return pod.UID
}

// isOf reports whether the UID in a client's request is the pod's.
func isOf(pod *corev1.Pod, uid types.UID) bool {
	return uid == "" || uid == pod.UID || uid == uidOf(pod)
}

// container finds the running container of that name; nil if there is none.
func (s *Server) container(ctx context.Context, pod *corev1.Pod, uid types.UID, name string) (*cri.Container, error) {
	if !isOf(pod, uid) {
		return nil, nil
	}
	all, err := s.runtime.ListContainers(ctx, cri.Filter{Labels: map[string]string{
		cri.LabelPodUID: string(uidOf(pod)), cri.LabelContainerName: name,
	}})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(c cri.Container) bool { return c.State == cri.ContainerRunning })
	if i < 0 {
		return nil, nil
	}
	return &all[i], nil
}

// streamsOf returns which streams a client wants.
func streamsOf(r *http.Request) (cri.Streams, error) {
	query := r.URL.Query()
	wants := func(name string) bool { return query.Get(name) == "1" }
	st := cri.Streams{Stdin: wants("input"), Stdout: wants("output"), Stderr: wants("error"), TTY: wants("tty")}
	if st.TTY {
		st.Stderr = false // a terminal has one output
	}
	if !st.Stdin && !st.Stdout && !st.Stderr {
		return st, errors.New("you must specify at least 1 of stdin, stdout, stderr")
	}
	return st, nil
}

func (s *Server) serveExec(w http.ResponseWriter, r *http.Request) {
	st, err := streamsOf(r)
	if err != nil {
		text(w, http.StatusBadRequest, "%v", err)
		return
	}
	pod, ok := s.named(w, r)
	if !ok {
		return
	}
	name := r.PathValue("container")
	c, err := s.container(r.Context(), pod, types.UID(r.PathValue("uid")), name)
	switch {
	case err != nil:
		fail(w, err)
	case c == nil:
		text(w, http.StatusInternalServerError, "container not found (%q)", name)
	default:
		s.stream(w, r, func(ctx context.Context, to cri.Streamer) (string, error) {
			return to.Exec(ctx, cri.ExecRequest{ContainerID: c.ID, Command: r.URL.Query()["command"], Streams: st})
		})
	}
}

func (s *Server) serveAttach(w http.ResponseWriter, r *http.Request) {
	st, err := streamsOf(r)
	if err != nil {
		text(w, http.StatusBadRequest, "%v", err)
		return
	}
	pod, ok := s.named(w, r)
	if !ok {
		return
	}
	name, full := r.PathValue("container"), pod.Name+"_"+pod.Namespace
	c, err := s.container(r.Context(), pod, types.UID(r.PathValue("uid")), name)
	tty, found := ttyOf(pod, name)
	switch {
	case err != nil:
		fail(w, err)
	case c == nil || !found:
		text(w, http.StatusInternalServerError, "container %s not found in pod %s", name, full)
	default:
		// Whether a process has a terminal was decided at its start.
		st.TTY = tty
		st.Stderr = st.Stderr && !tty
		s.stream(w, r, func(ctx context.Context, to cri.Streamer) (string, error) {
			return to.Attach(ctx, cri.AttachRequest{ContainerID: c.ID, Streams: st})
		})
	}
}

// ttyOf reports whether the container of that name has a terminal, and whether there is such a container.
func ttyOf(pod *corev1.Pod, name string) (tty, found bool) {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name == name {
			return c.TTY, true
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == name {
			return c.TTY, true
		}
	}
	return false, false
}

func (s *Server) servePortForward(w http.ResponseWriter, r *http.Request) {
	ports, err := portsOf(r)
	if err != nil {
		text(w, http.StatusBadRequest, "%v", err)
		return
	}
	pod, ok := s.named(w, r)
	if !ok {
		return
	}
	if !isOf(pod, types.UID(r.PathValue("uid"))) {
		text(w, http.StatusNotFound, "pod not found")
		return
	}
	all, err := s.runtime.ListSandboxes(r.Context(), cri.Filter{Labels: map[string]string{cri.LabelPodUID: string(uidOf(pod))}})
	i := slices.IndexFunc(all, func(b cri.Sandbox) bool { return b.State == cri.SandboxReady })
	switch {
	case err != nil:
		fail(w, err)
	case i < 0:
		text(w, http.StatusInternalServerError, "pod not found (%q)", pod.Name+"_"+pod.Namespace)
	default:
		s.stream(w, r, func(ctx context.Context, to cri.Streamer) (string, error) {
			return to.PortForward(ctx, all[i].ID, ports)
		})
	}
}

// portsOf returns the ports that a WebSocket client requests; other clients name the port in each stream.
func portsOf(r *http.Request) ([]int32, error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return nil, nil
	}
	values := r.URL.Query()["port"]
	if len(values) == 0 {
		return nil, errors.New("query parameter \"port\" is required")
	}
	var ports []int32
	for _, value := range values {
		if value == "" {
			return nil, errors.New("query parameter \"port\" cannot be empty")
		}
		for p := range strings.SplitSeq(value, ",") {
			n, err := strconv.ParseUint(p, 10, 16)
			switch {
			case err != nil:
				return nil, fmt.Errorf("unable to parse %q as a port: %w", value, err)
			case n < 1:
				return nil, fmt.Errorf("port %q must be > 0", value)
			}
			ports = append(ports, int32(n))
		}
	}
	return ports, nil
}

// stream prepares a stream in the runtime and connects the client to it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, prepare func(context.Context, cri.Streamer) (string, error)) {
	if !upgrade.Wanted(r) {
		text(w, http.StatusBadRequest, "Upgrade request required")
		return
	}
	to, ok := s.runtime.(cri.Streamer)
	if !ok {
		fail(w, fmt.Errorf("streams: %w", cri.ErrUnsupported))
		return
	}
	at, err := prepare(r.Context(), to)
	if err != nil {
		fail(w, err)
		return
	}
	s.streams.Add(1)
	defer s.streams.Done()
	if s.options.Streams != nil {
		s.serveStream(w, r, at)
		return
	}
	backend, err := s.backend(at)
	if err != nil {
		text(w, http.StatusInternalServerError, "%v", err)
		return
	}
	if err := backend.Proxy(w, r); err != nil {
		s.log.Warn("stream not opened", "path", r.URL.Path, "error", err)
		text(w, http.StatusInternalServerError, "%v", err)
	}
}

// serveStream lets a handler in this process serve a URL of the runtime.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, at string) {
	u, err := url.Parse(at)
	if err != nil {
		text(w, http.StatusInternalServerError, "the container runtime names no URL for the stream")
		return
	}
	request := r.Clone(r.Context())
	request.URL, request.RequestURI = u, u.RequestURI()
	request.Header.Del("Authorization") // is meant for this server
	s.options.Streams.ServeHTTP(w, request)
}

// backend is the runtime's streaming server. The URL and the stream are secret: without TLS they must not leave this
// host.
func (s *Server) backend(at string) (upgrade.Backend, error) {
	u, err := url.Parse(at)
	if err != nil {
		return upgrade.Backend{}, errors.New("the container runtime names no URL for the stream")
	}
	host := u.Hostname()
	ip, _ := netip.ParseAddr(host) // names are not resolved
	local := ip.IsLoopback() || isOwn(ip) || host == "localhost"
	if u.Scheme != "https" && !local {
		return upgrade.Backend{}, fmt.Errorf("the container runtime streams at %s without TLS, which is not this host", u.Host)
	}
	return upgrade.Backend{URL: u, TLS: s.options.RuntimeTLS}, nil
}

// isOwn reports whether an address is this host's.
func isOwn(ip netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == ip.Unmap()
	})
}

// serveRun runs a command to completion and answers with its output.
func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.named(w, r)
	if !ok {
		return
	}
	name := r.PathValue("container")
	c, err := s.container(r.Context(), pod, types.UID(r.PathValue("uid")), name)
	if err != nil {
		fail(w, err)
		return
	}
	if c == nil {
		text(w, http.StatusInternalServerError, "container not found (%q)", name)
		return
	}
	result, err := s.runtime.ExecSync(r.Context(), c.ID, strings.Split(r.FormValue("cmd"), " "), 0)
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", r.FormValue("cmd"), result.ExitCode, result.Stderr)
	}
	if err != nil {
		text(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json") // as upstream, whatever the output is
	_, _ = w.Write(append(result.Stdout, result.Stderr...))
}
