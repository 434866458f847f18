package extender

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// Config says where a program is and what it is asked. A verb is the last part of a URL; what has none is not asked.
type Config struct {
	// URL is the part before the verbs, such as "https://gpu.example/scheduler".
	URL string
	// Name is the plugin's; empty means URL.
	Name string
	// Filter, Prioritize, Preempt and Bind are the verbs.
	Filter, Prioritize, Preempt, Bind string
	// Weight is the factor of its scores, which are from 0 to 10.
	Weight int64
	// TLS configures the connections; nil means the system's authorities.
	TLS *tls.Config
	// Timeout limits each question; 0 means 5 s.
	Timeout time.Duration
	// NodeCacheCapable means that the program knows nodes and pods by name, and gets nothing more.
	NodeCacheCapable bool
	// ManagedResources restricts the questions to pods with a container that names one of these resources, if there are any.
	ManagedResources []string
	// Ignorable means that pods are scheduled without the program when it fails.
	Ignorable bool
}

// Extender asks one program. It is a scheduler.Winnower, a scheduler.Rater, a scheduler.Binder and a plugins.Reviewer.
type Extender struct {
	c    Config
	http *http.Client
}

// New returns an Extender, which connects when it has something to ask.
func New(c Config) *Extender {
	c.Name, c.Timeout = cmp.Or(c.Name, c.URL), cmp.Or(c.Timeout, 5*time.Second)
	return &Extender{c: c, http: &http.Client{
		Timeout:   c.Timeout,
		Transport: &http.Transport{TLSClientConfig: c.TLS, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second},
	}}
}

// Name returns the name of the plugin.
func (e *Extender) Name() string { return e.c.Name }

// Weight returns that of the scores, 0 if the program gives none.
func (e *Extender) Weight() int64 {
	if e.c.Prioritize == "" {
		return 0
	}
	return e.c.Weight
}

// Preempts reports whether the program is asked about preemption.
func (e *Extender) Preempts() bool { return e.c.Preempt != "" }

// CloseIdleConnections closes connections that are not in use.
func (e *Extender) CloseIdleConnections() { e.http.CloseIdleConnections() }

// interested reports whether the program is asked about a pod.
func (e *Extender) interested(pod *corev1.Pod) bool {
	if len(e.c.ManagedResources) == 0 {
		return true
	}
	managed := func(list corev1.ResourceList) bool {
		return slices.ContainsFunc(e.c.ManagedResources, func(name string) bool { _, ok := list[corev1.ResourceName(name)]; return ok })
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if managed(containers[i].Resources.Requests) || managed(containers[i].Resources.Limits) {
				return true
			}
		}
	}
	return false
}

// about returns the question about a pod and nodes.
func (e *Extender) about(pod *corev1.Pod, nodes []*scheduler.NodeInfo) *arguments {
	args := &arguments{Pod: pod}
	if e.c.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &corev1.NodeList{Items: make([]corev1.Node, len(nodes))}
	for i, n := range nodes {
		args.Nodes.Items[i] = *n.Node
	}
	return args
}

// SkipAsk reports whether the program is not asked about the pod.
func (e *Extender) SkipAsk(pod *corev1.Pod) bool {
	return e.c.Filter == "" && e.c.Prioritize == "" && e.c.Preempt == "" || !e.interested(pod)
}

// Winnow asks which nodes can take the pod. An Ignorable program that fails refuses none.
func (e *Extender) Winnow(ctx context.Context, pod *corev1.Pod, nodes []*scheduler.NodeInfo) ([]*scheduler.Refusal, error) {
	refusals := make([]*scheduler.Refusal, len(nodes))
	if e.c.Filter == "" || !e.interested(pod) {
		return refusals, nil
	}
	var answer filtered
	err := e.ask(ctx, e.c.Filter, e.about(pod, nodes), &answer)
	var left map[string]bool
	if err == nil {
		left, err = e.left(&answer, nodes)
	}
	if err != nil {
		if e.c.Ignorable {
			return refusals, nil
		}
		return nil, err
	}
	for i, n := range nodes {
		if left[n.Name] {
			continue
		}
		refusals[i] = &scheduler.Refusal{Unresolvable: true}
		if reason, ok := answer.FailedAndUnresolvableNodes[n.Name]; ok {
			refusals[i].Reasons = []string{reason}
		} else if reason, ok := answer.FailedNodes[n.Name]; ok {
			refusals[i] = scheduler.Refuse(reason)
		}
	}
	return refusals, nil
}

// left returns the names of the nodes that an answer leaves.
func (e *Extender) left(answer *filtered, nodes []*scheduler.NodeInfo) (map[string]bool, error) {
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	var names []string
	switch {
	case e.c.NodeCacheCapable && answer.NodeNames != nil:
		names = *answer.NodeNames
	case answer.Nodes != nil:
		for i := range answer.Nodes.Items {
			names = append(names, answer.Nodes.Items[i].Metadata.Name)
		}
	}
	asked := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		asked[n.Name] = true
	}
	left := make(map[string]bool, len(names))
	for _, name := range names {
		if !asked[name] {
			return nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", e.c.URL, name)
		}
		left[name] = true
	}
	return left, nil
}

// Score returns 0: the program is asked by Rate.
func (e *Extender) Score(*corev1.Pod, *scheduler.NodeInfo) int64 { return 0 }

// Rate asks how good the nodes are. A program that fails gives no scores.
func (e *Extender) Rate(ctx context.Context, pod *corev1.Pod, nodes []*scheduler.NodeInfo) ([]int64, error) {
	if e.c.Prioritize == "" || !e.interested(pod) {
		return nil, nil
	}
	var answer []priority
	if err := e.ask(ctx, e.c.Prioritize, e.about(pod, nodes), &answer); err != nil {
		return nil, nil //nolint:nilerr // as upstream
	}
	sums := make(map[string]int64, len(answer))
	for _, p := range answer {
		if p.Score < 0 || p.Score > maxScore {
			return nil, fmt.Errorf("extender %q returns an invalid score %d for node %q, it should be in the range of [0, %d]", e.c.URL, p.Score, p.Host, maxScore)
		}
		sums[p.Host] = p.Score
	}
	scores := make([]int64, len(nodes))
	for i, n := range nodes {
		scores[i] = sums[n.Name] * (scheduler.MaxScore / maxScore)
	}
	return scores, nil
}

// Bind has the program bind the pod, if it binds any and the pod is of its interest.
func (e *Extender) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	if e.c.Bind == "" || !e.interested(pod) {
		return scheduler.ErrDeclined
	}
	var answer bound
	err := e.ask(ctx, e.c.Bind, &binding{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}, &answer)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil && e.c.Ignorable {
		return fmt.Errorf("%w: %w", scheduler.ErrDeclined, err)
	}
	return err
}

// room is the size of an answer beyond twice that of the question.
const room = 4 << 20

// ask posts a question and decodes the answer.
func (e *Extender) ask(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	url := strings.TrimRight(e.c.URL, "/") + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := e.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, response.StatusCode)
	}
	limit := int64(room + 2*len(body))
	text, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return err
	case int64(len(text)) > limit:
		return fmt.Errorf("failed %v with extender at URL %v: the answer has more than %d bytes", verb, url, limit)
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(answer)
}
