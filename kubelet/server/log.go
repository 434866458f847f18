package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/logs"
)

// logRequest is a client's request for a log.
type logRequest struct {
	follow, previous, timestamps bool
	tail, limit, sinceSeconds    *int64
	since                        *metav1.Time
	stream                       string
}

var errInvalid = errors.New("invalid")

func parseLog(query url.Values) (logRequest, error) {
	q := logRequest{stream: corev1.LogStreamAll}
	if all := query.Get("tail"); all != "" {
		query.Set("tailLines", all)
		if all == "all" {
			query.Del("tailLines")
		}
	}
	for name, into := range map[string]*bool{"follow": &q.follow, "previous": &q.previous, "timestamps": &q.timestamps} {
		v := query.Get(name)
		*into = query.Has(name) && v != "0" && !strings.EqualFold(v, "false")
	}
	for name, into := range map[string]**int64{"tailLines": &q.tail, "limitBytes": &q.limit, "sinceSeconds": &q.sinceSeconds} {
		if !query.Has(name) {
			continue
		}
		n, err := strconv.ParseInt(query.Get(name), 10, 64)
		if err != nil {
			return q, err
		}
		*into = &n
	}
	if query.Has("stream") {
		q.stream = query.Get("stream")
	}
	if since := query["sinceTime"]; len(since) > 0 {
		if err := metav1.Convert_Slice_string_To_Pointer_v1_Time(&since, &q.since, nil); err != nil {
			return q, err
		}
	}
	return q, q.judge()
}

// judge validates the request like the API server.
func (q *logRequest) judge() error {
	part := q.stream == corev1.LogStreamStdout || q.stream == corev1.LogStreamStderr
	switch {
	case q.tail != nil && *q.tail < 0, q.limit != nil && *q.limit < 1, q.sinceSeconds != nil && *q.sinceSeconds < 1,
		q.sinceSeconds != nil && q.since != nil, !part && q.stream != corev1.LogStreamAll, part && q.tail != nil:
		return errInvalid
	}
	return nil
}

// begin is the time from which lines are wanted.
func (q *logRequest) begin() time.Time {
	const most = int64(math.MaxInt64 / time.Second)
	switch {
	case q.since != nil:
		return q.since.Time
	case q.sinceSeconds != nil && *q.sinceSeconds <= most: // a Duration cannot express more, and no log is that old
		return time.Now().Add(-time.Duration(*q.sinceSeconds) * time.Second)
	}
	return time.Time{}
}

func (s *Server) serveLog(w http.ResponseWriter, r *http.Request) {
	q, err := parseLog(r.URL.Query())
	switch {
	case errors.Is(err, errInvalid):
		text(w, http.StatusUnprocessableEntity, `{"message": "Invalid request."}`)
		return
	case err != nil:
		text(w, http.StatusBadRequest, `{"message": "Unable to decode query."}`)
		return
	}
	podName, name := r.PathValue("pod"), r.PathValue("container")
	pod, ok := s.pods.Pod(r.PathValue("namespace"), podName)
	if !ok {
		text(w, http.StatusNotFound, "pod %q does not exist", podName)
		return
	}
	if _, found := ttyOf(pod, name); !found {
		text(w, http.StatusNotFound, "container %q not found in pod %q", name, podName)
		return
	}
	id, err := logOf(pod, name, q.previous)
	if err != nil {
		text(w, http.StatusBadRequest, "%v", err)
		return
	}
	_, bare, ok := strings.Cut(id, "://")
	if !ok {
		bare = id
	}
	status, err := s.runtime.ContainerStatus(r.Context(), bare)
	if err != nil {
		s.log.Info("a container whose log was requested has no status", "container", id, "error", err)
		text(w, http.StatusBadRequest, "unable to retrieve container logs for %s", id)
		return
	}
	s.copyLog(w, r, status, q)
}

// copyLog answers with a log.
func (s *Server) copyLog(w http.ResponseWriter, r *http.Request, c cri.ContainerStatus, q logRequest) {
	out := &response{to: bufio.NewWriterSize(w, 32<<10), flush: http.NewResponseController(w).Flush}
	o := logs.Options{Tail: q.tail, Limit: q.limit, Since: q.begin(), Timestamps: q.timestamps, Follow: q.follow}
	if q.stream != corev1.LogStreamStderr {
		o.Stdout = out
	}
	if q.stream != corev1.LogStreamStdout {
		o.Stderr = out
	}
	o.Running = func(ctx context.Context) (bool, error) {
		status, err := s.runtime.ContainerStatus(ctx, c.ID)
		switch {
		case errors.Is(err, cri.ErrUnavailable):
			return true, nil // containers outlive their runtime
		case errors.Is(err, cri.ErrNotFound):
			return false, nil
		}
		return status.State == cri.ContainerRunning, err
	}
	o.Idle = out.send // also at the start, so that the client sees that it is connected
	err := s.readLog(r.Context(), c, o)
	if out.begun { // output already sent stands, whatever came after
		err = errors.Join(err, out.to.Flush())
	}
	switch {
	case err == nil || r.Context().Err() != nil:
	case out.begun:
		s.log.Info("log broke off", "container", c.ID, "error", err)
	default:
		text(w, http.StatusBadRequest, "failed to try resolving symlinks in path %q: %v", c.LogPath, err)
	}
}

// readLog reads the log from the runtime if that keeps it, or else from its file.
func (s *Server) readLog(ctx context.Context, c cri.ContainerStatus, o logs.Options) error {
	keeper, ok := s.runtime.(cri.LogOpener)
	if !ok {
		return logs.Read(ctx, c.LogPath, o)
	}
	log, err := keeper.OpenLog(ctx, c.ID)
	if err != nil {
		return err
	}
	return logs.Copy(ctx, log, o)
}

// response buffers output, and sends it when the buffer is full or there is nothing more for now.
type response struct {
	to    *bufio.Writer
	flush func() error
	begun bool // something may have been sent
}

func (o *response) Write(p []byte) (int, error) {
	o.begun = true
	return o.to.Write(p)
}

func (o *response) send() error {
	o.begun = true
	if err := o.to.Flush(); err != nil {
		return err
	}
	return o.flush()
}

// logOf finds the container instance whose log is wanted in the pod's status: the current one or last one, or the one
// before it.
func logOf(pod *corev1.Pod, name string, previous bool) (id string, err error) {
	c := statusOf(pod, name)
	if c == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	}
	last, state := c.LastTerminationState.Terminated, c.State
	switch {
	case previous:
		if last == nil || last.ContainerID == "" {
			return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
		}
		return last.ContainerID, nil
	case state.Running != nil:
		return c.ContainerID, nil
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return state.Terminated.ContainerID, nil
	case last != nil && last.ContainerID != "":
		return last.ContainerID, nil
	case state.Terminated != nil || last != nil:
		return "", fmt.Errorf("container %q in pod %q is terminated", name, pod.Name)
	case state.Waiting == nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, pod.Name)
	}
	reason := state.Waiting.Reason
	switch reason {
	case "ErrImagePull":
		reason = "image can't be pulled"
	case "ImagePullBackOff":
		reason = "trying and failing to pull image"
	}
	return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod.Name, reason)
}

func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, all := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range all {
			if all[i].Name == name {
				return &all[i]
			}
		}
	}
	return nil
}
