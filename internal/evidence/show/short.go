package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// headline is a row of the short table: a figure of a result, found by the beginning of its name, or a comparison with
// upstream, found by its whole name.
type headline struct {
	what, result, figure, peer string
}

// headlines returns the rows, in order. Those of tests have neither a figure nor a peer.
func headlines() []headline {
	return []headline{
		{what: "a whole cluster in a `go test`, from cold process to ready", result: "cluster", figure: "start to ready"},
		{what: "1,000 pods created to Running on 50 simulated nodes", result: "cluster", figure: "1,000 pods"},
		{what: "start of the server to a user's first pod over TLS", result: "peers", peer: "start"},
		{what: "memory a minute after a little use", result: "peers", peer: "memory"},
		{what: "CPU of the servers to create a pod", result: "peers", peer: "create-pods-cpu"},
		{what: "deployment created to 100 pods created", result: "peers", peer: "deployment"},
		{what: "deployment of nginx to 3 replicas ready, in real containers", result: "peers", peer: "containers-3-ready"},
		{what: "violations found by 200 SIGKILLs under load", result: "kills", figure: "violations"},
		{what: "violations of linearizability while power, etcd and its network fail", result: "soak", figure: "violations"},
		{what: "upstream's conformance tests without containers", result: "conformance"},
		{what: "upstream's conformance tests with containers", result: "conformance-pods"},
	}
}

// inShort renders the rows that have results. The rows of a failed result say so.
func inShort(results string) (string, error) {
	var b strings.Builder
	b.WriteString("\n| what | keelson | upstream |\n|---|---|---|\n")
	read := map[string]evidence.Result{}
	for _, h := range headlines() {
		r, ok := read[h.result]
		if !ok {
			var err error
			if r, err = evidence.Read(results, h.result); err != nil {
				return "", err
			}
			read[h.result] = r
		}
		ours, theirs, err := h.cells(r)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", h.what, ours, theirs)
	}
	fmt.Fprintf(&b, "\nMeasured on %s; upstream is %s.\n\n", strings.Join(machines(read), " and "), strings.Join(versions(read["peers"]), ", "))
	return b.String(), nil
}

// machines returns the machines of the results.
func machines(all map[string]evidence.Result) []string {
	seen := map[string]bool{}
	for _, r := range all {
		seen[fmt.Sprintf("%d CPUs (%s, %s/%s)", r.Machine.CPUs, r.Machine.Model, r.Machine.OS, r.Machine.Arch)] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// versions returns the versions of upstream's programs.
func versions(r evidence.Result) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		all = append(all, name+" "+r.Versions[name])
	}
	return all
}

// cells returns keelson's figure and, if there is one, upstream's.
func (h headline) cells(r evidence.Result) (ours, theirs string, err error) {
	switch {
	case !r.Passed:
		return "the last run failed", "", nil
	case h.peer != "":
		for _, p := range r.Peers {
			if p.Name == h.peer && p.LeftOut != "" {
				return "left out: " + p.LeftOut, "", nil
			}
			if p.Name == h.peer {
				return rounded(p.Keelson, p.Unit), rounded(p.Upstream, p.Unit), nil
			}
		}
	case h.figure != "":
		for _, f := range r.Figures {
			if strings.HasPrefix(f.What, h.figure) {
				return strings.TrimSpace(rounded(f.Value, f.Unit)), "", nil
			}
		}
	case r.Tests != nil:
		return fmt.Sprintf("%d of %d passed, %d left out", r.Tests.Passed, r.Tests.Selected, len(r.Tests.LeftOut)), "", nil
	}
	return "", "", fmt.Errorf("results/%s.json has no %q", h.result, h.figure+h.peer)
}
