package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// runtimeCalls shows where the time goes: the average time of each call of the container runtime, from the kubelet's
// metrics.
func runtimeCalls(ctx context.Context, api kubernetes.Interface) ([]evidence.Figure, error) {
	text, err := api.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node-0/proxy/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	sums, counts := map[string]float64{}, map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		labels, value, _ := strings.Cut(rest, "} ")
		_, operation, _ := strings.Cut(labels, `operation_type="`)
		operation, _, _ = strings.Cut(operation, `"`)
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			continue
		}
		switch name {
		case "kubelet_runtime_operations_duration_seconds_sum":
			sums[operation] = n
		case "kubelet_runtime_operations_duration_seconds_count":
			counts[operation] = n
		}
	}
	var figures []evidence.Figure
	for _, operation := range []string{"run_podsandbox", "create_container", "start_container", "container_status", "stop_container", "stop_podsandbox"} {
		count := counts[operation]
		if count == 0 {
			return nil, fmt.Errorf("the kubelet's metrics tell nothing of %s", operation)
		}
		figures = append(figures, evidence.Figure{
			What: "of it, the runtime's time for each " + operation, Of: "mean", Value: 1000 * sums[operation] / count, Unit: "ms", Runs: int(count),
		})
	}
	return figures, nil
}
