package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
)

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.HandleFunc("GET /healthz/{check}", s.serveHealth)
	mux.HandleFunc("GET /pods", func(w http.ResponseWriter, _ *http.Request) { writePods(w, s.pods.Pods()) })
	mux.HandleFunc("GET /pods/{$}", func(w http.ResponseWriter, _ *http.Request) { writePods(w, s.pods.Pods()) })
	mux.HandleFunc("GET /runningpods", s.serveRunning)
	mux.HandleFunc("GET /runningpods/{$}", s.serveRunning)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.serveLog)
	for _, method := range []string{"GET", "POST"} {
		for _, container := range []string{"/{container}", "/{uid}/{container}"} {
			mux.HandleFunc(method+" /exec/{namespace}/{pod}"+container, s.serveExec)
			mux.HandleFunc(method+" /attach/{namespace}/{pod}"+container, s.serveAttach)
		}
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", s.servePortForward)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}/{uid}", s.servePortForward)
	}
	mux.HandleFunc("POST /run/{namespace}/{pod}/{container}", s.serveRun)
	mux.HandleFunc("POST /run/{namespace}/{pod}/{uid}/{container}", s.serveRun)
	mux.HandleFunc("GET /configz", s.serveConfig)
	if s.options.Summary != nil {
		mux.HandleFunc("/stats/summary", s.serveSummary)
	}
	for path, h := range map[string]http.Handler{
		"/metrics": s.options.Metrics.Kubelet, "/metrics/cadvisor": s.options.Metrics.Cadvisor,
		"/metrics/resource": s.options.Metrics.Resource, "/metrics/probes": s.options.Metrics.Probes,
	} {
		if h != nil {
			mux.Handle("GET "+path, h)
		}
	}
	if s.options.LogDir != "" {
		mux.Handle("GET /logs/", http.StripPrefix("/logs/", http.HandlerFunc(s.serveFiles)))
	}
	return mux
}

// serveHealth answers like upstream's health checks.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	var text strings.Builder
	var failed []string
	one := r.PathValue("check")
	for _, check := range []string{"ping", "log", "syncloop"} {
		if one != "" && one != check {
			continue
		}
		var err error
		if check == "syncloop" && s.options.Healthy != nil {
			err = s.options.Healthy(r.Context())
		}
		if err != nil {
			s.log.Warn("health check failed", "check", check, "error", err)
			failed = append(failed, check)
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", check)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", check)
	}
	switch {
	case text.Len() == 0:
		http.NotFound(w, r)
	case len(failed) > 0:
		http.Error(w, text.String()+"healthz check failed", http.StatusInternalServerError)
	case r.URL.Query().Has("verbose") && one == "":
		_, _ = fmt.Fprint(w, text.String()+"healthz check passed\n")
	default:
		_, _ = fmt.Fprint(w, "ok")
	}
}

func writePods(w http.ResponseWriter, pods []*corev1.Pod) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{}}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	writeJSON(w, list)
}

func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // a client that is gone is no error of ours
}

// serveRunning lists the pods in the runtime that have running containers.
func (s *Server) serveRunning(w http.ResponseWriter, r *http.Request) {
	containers, err := s.runtime.ListContainers(r.Context(), cri.Filter{})
	if err != nil {
		fail(w, err)
		return
	}
	var pods []*corev1.Pod
	byUID := map[string]*corev1.Pod{}
	for i := range containers {
		c := &containers[i]
		uid := c.Labels[cri.LabelPodUID]
		if c.State != cri.ContainerRunning || uid == "" {
			continue
		}
		pod := byUID[uid]
		if pod == nil {
			pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: c.Labels[cri.LabelPodName], Namespace: c.Labels[cri.LabelPodNamespace], UID: types.UID(uid),
			}}
			byUID[uid] = pod
			pods = append(pods, pod)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Labels[cri.LabelContainerName], Image: c.Image.Image})
	}
	writePods(w, pods)
}

func (s *Server) serveConfig(w http.ResponseWriter, _ *http.Request) {
	config := map[string]any{}
	if s.options.Config != nil {
		config["kubeletconfig"] = s.options.Config
	}
	writeJSON(w, config)
}

// serveFiles serves the log directory without following links out of it: pods may write there.
func (s *Server) serveFiles(w http.ResponseWriter, r *http.Request) {
	root, err := os.OpenRoot(s.options.LogDir)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer func() { _ = root.Close() }() // it was read
	http.FileServerFS(root.FS()).ServeHTTP(w, r)
}

func (s *Server) serveSummary(w http.ResponseWriter, r *http.Request) {
	summary, err := s.options.Summary(r.Context())
	if err != nil {
		http.Error(w, "Internal Error: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if r.URL.Query().Get("only_cpu_and_memory") == "true" {
		summary = onlyCPUAndMemory(summary)
	}
	writeJSON(w, summary)
}

// onlyCPUAndMemory removes everything else from a summary.
func onlyCPUAndMemory(all statsv1alpha1.Summary) statsv1alpha1.Summary {
	n := all.Node
	some := statsv1alpha1.Summary{Node: statsv1alpha1.NodeStats{NodeName: n.NodeName, StartTime: n.StartTime, CPU: n.CPU, Memory: n.Memory}}
	for _, c := range n.SystemContainers {
		some.Node.SystemContainers = append(some.Node.SystemContainers, statsv1alpha1.ContainerStats{Name: c.Name, StartTime: c.StartTime, CPU: c.CPU, Memory: c.Memory})
	}
	for _, p := range all.Pods {
		pod := statsv1alpha1.PodStats{PodRef: p.PodRef, StartTime: p.StartTime, CPU: p.CPU, Memory: p.Memory}
		for _, c := range p.Containers {
			pod.Containers = append(pod.Containers, statsv1alpha1.ContainerStats{Name: c.Name, StartTime: c.StartTime, CPU: c.CPU, Memory: c.Memory})
		}
		some.Pods = append(some.Pods, pod)
	}
	return some
}

// fail answers with an error of the runtime.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, cri.ErrNotFound) {
		code = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(err.Error())) // a client that is gone is no error of ours
}
