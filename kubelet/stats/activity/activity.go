// Package activity provides a kubelet's metrics about itself, under upstream's names: how many pods run, how long they
// took to start, calls to the runtime, and evictions.
//
// A Metrics counts what it is notified of and serves it as text. It is safe for concurrent use and never fails; its
// methods are quick enough to be called from anywhere.
package activity

import (
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/kubelet/stats/internal/text"
)

// Start describes a pod's start.
type Start struct {
	// Created is when the pod was created, Seen when the kubelet first saw it, and Running when all its containers had
	// been started.
	Created, Seen, Running time.Time
	// Excluded is the time spent on image pulls and init containers.
	Excluded time.Duration
}

// Counts is what runs at a moment.
type Counts struct {
	// Pods is the number of pods with a ready sandbox. Containers is the number of containers by state: created,
	// running, exited, unknown.
	Pods       int
	Containers map[string]int
}

// Metrics holds a kubelet's metrics. Make one with New.
type Metrics struct {
	counts func() Counts

	mu       sync.Mutex
	families []*family
	byName   map[string]*family
}

// Names of the metrics that methods change.
const (
	startDuration      = "kubelet_pod_start_duration_seconds"
	startSLI           = "kubelet_pod_start_sli_duration_seconds"
	startTotal         = "kubelet_pod_start_total_duration_seconds"
	startedPods        = "kubelet_started_pods_total"
	startedContainers  = "kubelet_started_containers_total"
	startErrors        = "kubelet_started_containers_errors_total"
	workerDuration     = "kubelet_pod_worker_duration_seconds"
	operations         = "kubelet_runtime_operations_total"
	operationErrors    = "kubelet_runtime_operations_errors_total"
	operationsDuration = "kubelet_runtime_operations_duration_seconds"
	evictions          = "kubelet_evictions"
	collected          = "kubelet_image_garbage_collected_total"
	rejections         = "kubelet_admission_rejections_total"
	nodeName           = "kubelet_node_name"
)

// New makes the metrics of a node's kubelet. The function counts is called whenever the metrics are read; it may be
// nil.
func New(node string, counts func() Counts) *Metrics {
	m := &Metrics{counts: counts, byName: map[string]*family{}}
	starts := []float64{
		0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
	}
	usual := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	var calls []float64
	for i := range 14 {
		calls = append(calls, .005*math.Pow(2.5, float64(i)))
	}
	for _, f := range []family{
		{name: rejections, kind: text.Counter, label: "reason", help: "[ALPHA] Cumulative number pod admission rejections by the Kubelet."},
		{name: evictions, kind: text.Counter, label: "eviction_signal", help: "[ALPHA] Cumulative number of pod evictions by eviction signal"},
		{name: collected, kind: text.Counter, label: "reason", help: "[ALPHA] Total number of images garbage collected by the kubelet, whether through disk usage or image age."},
		{name: nodeName, kind: text.Gauge, label: "node", help: "[ALPHA] The node's name. The count is always 1."},
		{name: startDuration, kind: text.Histogram, buckets: starts, help: "[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run"},
		{name: startSLI, kind: text.Histogram, buckets: starts, help: "[ALPHA] Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch"},
		{name: startTotal, kind: text.Histogram, buckets: starts, help: "[ALPHA] Duration in seconds to start a pod since creation, including time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch"},
		{name: workerDuration, kind: text.Histogram, label: "operation_type", buckets: usual, help: "[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync"},
		{name: operationsDuration, kind: text.Histogram, label: "operation_type", buckets: calls, help: "[ALPHA] Duration in seconds of runtime operations. Broken down by operation type."},
		{name: operationErrors, kind: text.Counter, label: "operation_type", help: "[ALPHA] Cumulative number of runtime operation errors by operation type."},
		{name: operations, kind: text.Counter, label: "operation_type", help: "[ALPHA] Cumulative number of runtime operations by operation type."},
		{name: startedContainers, kind: text.Counter, label: "container_type", help: "[ALPHA] Cumulative number of containers started"},
		{name: startErrors, kind: text.Counter, label: "code", help: "[ALPHA] Cumulative number of errors when starting containers"},
		{name: startedPods, kind: text.Counter, help: "[ALPHA] Cumulative number of pods started"},
	} {
		f.values = map[string]*value{}
		m.families = append(m.families, &f)
		m.byName[f.name] = &f
	}
	m.add(nodeName, node, 1)
	return m
}

// PodStarted records that all containers of a pod have been started.
func (m *Metrics) PodStarted(s Start) {
	m.add(startedPods, "", 1)
	m.add(startDuration, "", seconds(s.Running.Sub(s.Seen)))
	m.add(startTotal, "", seconds(s.Running.Sub(s.Created)))
	m.add(startSLI, "", seconds(s.Running.Sub(s.Created)-s.Excluded))
}

// ContainerStarted records the start of a container; kind is container, init_container or ephemeral_container. Code is
// the reason of a failure, or empty.
func (m *Metrics) ContainerStarted(kind, code string) {
	m.add(startedContainers, kind, 1)
	if code != "" {
		m.add(startErrors, code, 1)
	}
}

// PodSynced records how long a sync of a pod took; the operation is create, update or sync.
func (m *Metrics) PodSynced(operation string, took time.Duration) {
	m.add(workerDuration, operation, seconds(took))
}

// RuntimeOperation records a call to the runtime, by upstream's name, such as run_podsandbox.
func (m *Metrics) RuntimeOperation(operation string, took time.Duration, err error) {
	m.add(operations, operation, 1)
	m.add(operationsDuration, operation, seconds(took))
	if err != nil {
		m.add(operationErrors, operation, 1)
	}
}

// Evicted records the eviction of a pod because of a signal, such as memory.available.
func (m *Metrics) Evicted(signal string) { m.add(evictions, signal, 1) }

// ImageCollected records that an image was removed; the reason is age or space.
func (m *Metrics) ImageCollected(reason string) { m.add(collected, reason, 1) }

// Rejected records that a pod was not admitted.
func (m *Metrics) Rejected(reason string) { m.add(rejections, reason, 1) }

func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// ServeHTTP writes the metrics.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var out text.Writer
	m.write(&out)
	w.Header().Set("Content-Type", text.ContentType)
	_, _ = w.Write(out.Bytes()) // fails only if the client is gone
}
