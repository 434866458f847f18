package connect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/keelson-dev/keelson/apiserver"
)

// maxRefusal bounds how much of a kubelet's error is read.
const maxRefusal = 50000

func (c *Connector) logs(ctx context.Context, objects apiserver.Objects, to apiserver.Target, o *corev1.PodLogOptions) (apiserver.Connection, error) {
	pod, err := get[*corev1.Pod](ctx, objects, "pods", to.Namespace, to.Name)
	if err != nil {
		return nil, err
	}
	container, err := containerOf(pod, o.Container)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}, nil
	}
	k, err := c.kubelet(ctx, objects, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	k.at.Path = "/containerLogs/" + pod.Namespace + "/" + pod.Name + "/" + container
	k.at.RawQuery = logQuery(o).Encode()
	from := k.peer
	if o.InsecureSkipTLSVerifyBackend {
		from = k.trusting
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		return copyLog(w, r, logSource{from, k.at, to.Name, o.Follow})
	}, nil
}

func logQuery(o *corev1.PodLogOptions) url.Values {
	query := url.Values{}
	for name, set := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if set {
			query.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			query.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		query.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if o.Stream != nil {
		query.Set("stream", *o.Stream)
	}
	return query
}

type logSource struct {
	peer
	url    *url.URL
	pod    string
	follow bool
}

func copyLog(w http.ResponseWriter, r *http.Request, from logSource) error {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, from.url.String(), nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     from.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirects forbidden") },
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if err := refusal(answer, from.pod); err != nil {
		return err
	}
	if wsstream.IsWebSocketRequest(r) {
		// Buffered, since the library drops what it reads together with the end.
		log := bufio.NewReader(answer.Body)
		_ = wsstream.NewReader(log, true, wsstream.NewDefaultReaderProtocols()).Copy(w, r) // as below
		return nil
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(answer.StatusCode)
	to := io.Writer(w)
	if from.follow {
		to = flushing{w, http.NewResponseController(w)}
		_, _ = to.Write(nil) // the headers go before there is any text
	}
	_, _ = io.Copy(to, answer.Body) // the client has its answer; it, or the kubelet, broke off
	return nil
}

// refusal is the error that a kubelet answered with.
func refusal(answer *http.Response, pod string) error {
	if answer.StatusCode >= http.StatusOK && answer.StatusCode <= http.StatusPartialContent {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case answer.StatusCode == http.StatusInternalServerError:
		return apierrors.NewInternalError(fmt.Errorf("%s", text))
	case answer.StatusCode == http.StatusBadRequest:
		return apierrors.NewBadRequest(string(text))
	}
	return apierrors.NewGenericServerResponse(answer.StatusCode, "", schema.GroupResource{Resource: "pods/log"}, pod, string(text), 0, false)
}

// flushing sends what is written at once.
type flushing struct {
	io.Writer
	controller *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.controller.Flush()
	}
	return n, err
}
