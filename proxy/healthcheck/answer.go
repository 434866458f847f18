package healthcheck

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/proxy"
)

// WriteCheck answers the health check of a service with so many ready endpoints on the node.
func WriteCheck(w http.ResponseWriter, service proxy.Service, endpoints int, healthy bool) {
	begin(w)
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(endpoints))
	w.WriteHeader(status(endpoints != 0 && healthy))
	_, _ = fmt.Fprintf(w, "{\n\t\"service\": {\n\t\t\"namespace\": %q,\n\t\t\"name\": %q\n\t},\n\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": %v\n}",
		service.Namespace, service.Name, endpoints, healthy)
}

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func status(good bool) int {
	if good {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// toBeDeleted is the taint of nodes that the cluster autoscaler is about to delete.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// Eligible reports whether load balancers should use the node: it exists and is not about to be deleted. A nil node does
// not exist.
func Eligible(node *corev1.Node) bool {
	if node == nil || node.DeletionTimestamp != nil {
		return false
	}
	for _, t := range node.Spec.Taints {
		if t.Key == toBeDeleted {
			return false
		}
	}
	return true
}

// answer is the body of /healthz and /livez.
type answer struct {
	LastUpdated  time.Time                    `json:"lastUpdated"`
	CurrentTime  time.Time                    `json:"currentTime"`
	NodeEligible *bool                        `json:"nodeEligible,omitempty"`
	Healthy      bool                         `json:"healthy"`
	Status       map[corev1.IPFamily]ofFamily `json:"status,omitempty"`
}

type ofFamily struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// Handler serves /healthz and /livez: both tell whether the proxy keeps up, the first also whether its node is eligible.
func Handler(health *proxy.Health, eligible func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		is := eligible()
		describe(w, health, &is)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { describe(w, health, nil) })
	return mux
}

func describe(w http.ResponseWriter, health *proxy.Health, eligible *bool) {
	healthy, updated := health.State()
	a := answer{LastUpdated: updated, CurrentTime: time.Now(), NodeEligible: eligible, Healthy: healthy}
	if !updated.IsZero() { // one proxy serves both families
		of := ofFamily{updated, healthy}
		a.Status = map[corev1.IPFamily]ofFamily{corev1.IPv4Protocol: of, corev1.IPv6Protocol: of}
	}
	good := healthy && (eligible == nil || *eligible)
	if good {
		a.LastUpdated = time.Now() // what clients of old have always seen
	}
	begin(w)
	w.WriteHeader(status(good))
	body, err := json.Marshal(a)
	if err == nil {
		_, _ = w.Write(body)
	}
}
