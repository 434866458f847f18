package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/podspec/features"
)

// nodeReporter registers the node and maintains its status and lease.
type nodeReporter struct {
	k *Kubelet

	registered chan struct{} // closed once the node is in the API
	soon       chan struct{} // holds one token while an update is requested

	mu      sync.Mutex
	node    *corev1.Node // newest known state
	network string       // what is wrong with the runtime's network, if anything

	// Only used by run's goroutine:
	first    *corev1.Node // what to register, computed before any pod is handled
	reported time.Time    // when the status was sent last
	foreign  bool         // the node was there before this process, which has not reported its status
}

func newNodeReporter(k *Kubelet) *nodeReporter {
	return &nodeReporter{k: k, registered: make(chan struct{}), soon: make(chan struct{}, 1)}
}

// current is the newest known state of the node; before it is registered, the one to register.
func (n *nodeReporter) current() *corev1.Node {
	if n.k.sources.Nodes != nil {
		if node, ok := n.k.sources.Nodes.Get("", n.k.name); ok {
			return node
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node != nil {
		return n.node
	}
	return n.initial()
}

// known waits until the node's labels and taints in the API are known: admission of pods depends on them.
func (n *nodeReporter) known(ctx context.Context) error {
	if nodes := n.k.sources.Nodes; nodes != nil {
		if err := nodes.WaitSynced(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		if _, there := nodes.Get("", n.k.name); there {
			return nil
		}
	}
	select {
	case <-n.registered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// networkProblem says why pods cannot have a network, as of the runtime's last status.
func (n *nodeReporter) networkProblem() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.network
}

func (n *nodeReporter) learn(node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = node
}

// run registers the node and then maintains its status until the context ends.
func (n *nodeReporter) run(ctx context.Context) {
	if n.register(ctx) != nil {
		return
	}
	if report := n.k.options.OnRegistered; report != nil {
		report(n.current())
	}
	fresh := !n.reported.IsZero() && !n.k.options.RegisterUnready // nothing to add to what was registered
	for {
		if !fresh {
			if err := n.report(ctx); err != nil && ctx.Err() == nil {
				n.k.log.Warn("reporting the node's status failed", "error", err)
			}
		}
		fresh = false
		if n.wait(ctx) != nil {
			return
		}
	}
}

// wait waits until the node's status is due.
func (n *nodeReporter) wait(ctx context.Context) error {
	timer := time.NewTimer(n.k.options.Periods.StatusUpdate)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.soon:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Report makes the kubelet update its node's status now, because something about the node has changed.
func (k *Kubelet) Report() { k.node.reportNow() }

// reportNow requests an update of the node's status now.
func (n *nodeReporter) reportNow() {
	select {
	case n.soon <- struct{}{}:
	default:
	}
}

// prepare describes the node as it is before any pod runs.
func (n *nodeReporter) prepare(ctx context.Context) {
	n.first = n.initial()
	n.describe(ctx, n.first)
}

// register creates the node, or finds that it exists, and retries until it succeeds.
func (n *nodeReporter) register(ctx context.Context) error {
	for step := 100 * time.Millisecond; ; step = min(2*step, 7*time.Second) {
		err := n.tryRegister(ctx)
		if err == nil {
			close(n.registered)
			return nil
		}
		if ctx.Err() == nil {
			n.k.log.Warn("registering the node failed", "error", err)
		}
		if err := pause.For(ctx, step); err != nil {
			return err
		}
	}
}

func (n *nodeReporter) tryRegister(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if n.first == nil {
		n.prepare(ctx)
	}
	node := n.first
	n.first = nil
	if n.k.options.RegisterUnready {
		setNodeCondition(node, notReady("container runtime status check may not have completed yet"))
	}
	created, err := n.k.client.Create(ctx, n.target(""), node, metav1.CreateOptions{})
	switch {
	case err == nil:
		if stored, ok := created.(*corev1.Node); ok {
			node = stored
		}
		n.reported = time.Now()
		n.tell(&corev1.Node{}, node)
		n.learn(node)
		return nil
	case apierrors.IsAlreadyExists(err):
		return n.reconcile(ctx, node)
	default:
		return err
	}
}

// reconcile takes over a node that is already registered: it updates the labels that this kubelet sets.
func (n *nodeReporter) reconcile(ctx context.Context, wanted *corev1.Node) error {
	existing, err := n.fetch(ctx)
	if err != nil {
		return err
	}
	missing := map[string]string{}
	for _, key := range []string{
		corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	} {
		if existing.Labels[key] != wanted.Labels[key] {
			missing[key] = wanted.Labels[key]
		}
	}
	if len(missing) > 0 {
		patch := map[string]any{"metadata": map[string]any{"labels": missing}}
		if existing, err = n.patch(ctx, "", patch); err != nil {
			return err
		}
	}
	n.foreign = true
	n.learn(existing)
	return nil
}

func (n *nodeReporter) target(subresource string) client.Target {
	return client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: n.k.name, Subresource: subresource,
	}
}

func (n *nodeReporter) fetch(ctx context.Context) (*corev1.Node, error) {
	obj, err := n.k.client.Get(ctx, n.target(""))
	if err != nil {
		return nil, err
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T instead of a node", obj)
	}
	return node, nil
}

// initial is the node before it has a status.
func (n *nodeReporter) initial() *corev1.Node {
	o := n.k.options
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: o.NodeName,
		Labels: map[string]string{
			corev1.LabelHostname:      o.NodeName,
			corev1.LabelOSStable:      o.Info.OperatingSystem,
			corev1.LabelArchStable:    o.Info.Architecture,
			"beta.kubernetes.io/os":   o.Info.OperatingSystem,
			"beta.kubernetes.io/arch": o.Info.Architecture,
		},
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}
	maps.Copy(node.Labels, o.Labels)
	node.Spec.Taints = append(node.Spec.Taints, o.Taints...)
	node.Spec.ProviderID = o.ProviderID
	node.Spec.PodCIDRs = append(node.Spec.PodCIDRs, o.PodCIDRs...)
	if len(o.PodCIDRs) > 0 {
		node.Spec.PodCIDR = o.PodCIDRs[0]
	}
	node.Status.Capacity, node.Status.Allocatable = o.Capacity.DeepCopy(), o.Allocatable.DeepCopy()
	return node
}

// report computes the node's status and sends it if it changed or was not sent for a while.
func (n *nodeReporter) report(ctx context.Context) error {
	var err error
	for attempt := range 5 {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		err = n.tryReport(limited, attempt > 0 || n.k.sources.Nodes == nil && !n.reported.IsZero())
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (n *nodeReporter) tryReport(ctx context.Context, fresh bool) error {
	old := n.current()
	if fresh {
		read, err := n.fetch(ctx)
		if apierrors.IsNotFound(err) {
			return n.tryRegister(ctx) // somebody deleted it
		}
		if err != nil {
			return err
		}
		old = read
		n.learn(read)
	}
	node := old.DeepCopy()
	n.describe(ctx, node)
	if !statusChanged(&old.Status, &node.Status) && time.Since(n.reported) < n.k.options.Periods.StatusReport {
		return nil
	}
	change, err := statusPatch(&old.Status, &node.Status)
	if err != nil {
		return err
	}
	if len(change) > 0 {
		updated, err := n.patch(ctx, "status", map[string]any{"status": change})
		if err != nil {
			return err
		}
		n.learn(updated)
	}
	n.reported, n.foreign = time.Now(), false
	n.tell(old, node)
	return nil
}

// statusChanged compares statuses, ignoring their heartbeats.
func statusChanged(a, b *corev1.NodeStatus) bool {
	still := func(c corev1.NodeCondition) corev1.NodeCondition {
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.Time{}, metav1.Time{}
		return c
	}
	if !slices.EqualFunc(a.Conditions, b.Conditions, func(x, y corev1.NodeCondition) bool { return still(x) == still(y) }) {
		return true
	}
	x, y := *a, *b
	x.Conditions, y.Conditions = nil, nil
	return !apiequality.Semantic.DeepEqual(x, y)
}

// describe brings the node's status up to date.
func (n *nodeReporter) describe(ctx context.Context, node *corev1.Node) {
	o := n.k.options
	node.Status.Addresses = append([]corev1.NodeAddress(nil), o.Addresses...)
	node.Status.Capacity = fillResources(o.Capacity, node.Status.Capacity)
	node.Status.Allocatable = fillResources(o.Allocatable, node.Status.Allocatable)
	n.devices(node)
	node.Status.NodeInfo = o.Info
	node.Status.DeclaredFeatures = nil
	if n.k.resizer != nil {
		node.Status.DeclaredFeatures = []string{features.ResizePods, features.ResizeInitContainers}
	}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = o.ServerPort
	if v, err := n.k.runtime.Version(ctx); err == nil {
		node.Status.NodeInfo.ContainerRuntimeVersion = v.Name + "://" + v.Version
	}
	node.Status.Images = n.images(ctx)
	status, err := n.k.runtime.Status(ctx)
	if err == nil {
		node.Status.RuntimeHandlers, node.Status.Features = abilities(status)
	}
	for _, c := range append(n.k.options.Host.Pressure.Conditions(), n.readiness(status, err)) {
		setNodeCondition(node, c)
	}
}

// maxImages and maxImageNames bound the images in a node's status.
const (
	maxImages     = 50
	maxImageNames = 5
)

func (n *nodeReporter) images(ctx context.Context) []corev1.ContainerImage {
	list, err := n.k.images.ListImages(ctx)
	if err != nil {
		return nil
	}
	var out []corev1.ContainerImage
	for _, i := range list[:min(len(list), maxImages)] {
		names := append(append([]string(nil), i.Digests...), i.Tags...)
		out = append(out, corev1.ContainerImage{Names: names[:min(len(names), maxImageNames)], SizeBytes: int64(i.Size)})
	}
	return out
}

// abilities are what a runtime and its handlers, in the order of their names, are able to do. A runtime that does not
// say what handlers it has does not know of their features either.
func abilities(status cri.RuntimeStatus) ([]corev1.NodeRuntimeHandler, *corev1.NodeFeatures) {
	var list []corev1.NodeRuntimeHandler
	for _, h := range status.Handlers {
		list = append(list, corev1.NodeRuntimeHandler{Name: h.Name, Features: &corev1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: &h.RecursiveReadOnlyMounts, UserNamespaces: &h.UserNamespaces,
		}})
	}
	if list == nil {
		return nil, nil
	}
	slices.SortFunc(list, func(a, b corev1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	return list, &corev1.NodeFeatures{SupplementalGroupsPolicy: &status.Features.SupplementalGroupsPolicy}
}

// readiness is the node's Ready condition, which follows the runtime's conditions.
func (n *nodeReporter) readiness(status cri.RuntimeStatus, err error) corev1.NodeCondition {
	if err != nil {
		return notReady("container runtime is down")
	}
	var errs []error
	if c := status.Runtime; !c.Ready {
		errs = append(errs, fmt.Errorf("container runtime not ready: RuntimeReady=false reason:%s message:%s", c.Reason, c.Message))
	}
	problem := ""
	if c := status.Network; !c.Ready {
		problem = fmt.Sprintf("container runtime network not ready: NetworkReady=false reason:%s message:%s", c.Reason, c.Message)
		errs = append(errs, errors.New(problem))
	}
	n.mu.Lock()
	n.network = problem
	n.mu.Unlock()
	if other := n.k.options.Host.Problem; other != nil {
		if err := other(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := join(errs); err != nil {
		return notReady(err.Error())
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		Reason: "KubeletReady", Message: "kubelet is posting ready status",
	}
}

func notReady(why string) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: why,
	}
}

// join formats several errors like upstream's aggregates.
func join(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	text := "["
	for i, err := range errs {
		if i > 0 {
			text += ", "
		}
		text += err.Error()
	}
	return errors.New(text + "]")
}

// setNodeCondition replaces a condition; its transition time changes only with its status.
func setNodeCondition(node *corev1.Node, c corev1.NodeCondition) {
	now := metav1.NewTime(time.Now().Truncate(time.Second).UTC())
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	for i := range node.Status.Conditions {
		old := &node.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	node.Status.Conditions = append(node.Status.Conditions, c)
}

// tell records events for conditions whose status changed.
func (n *nodeReporter) tell(old, node *corev1.Node) {
	before := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range old.Status.Conditions {
		before[c.Type] = c.Status
	}
	for _, c := range node.Status.Conditions {
		if before[c.Type] == c.Status {
			continue
		}
		reason := "Node" + c.Reason[min(len("Kubelet"), len(c.Reason)):]
		switch c.Type {
		case corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure:
			n.k.nodeEvent(reason, fmt.Sprintf("Node %s status is now: %s", n.k.name, reason))
		}
	}
}

func (n *nodeReporter) patch(ctx context.Context, subresource string, body map[string]any) (*corev1.Node, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	obj, err := n.k.client.Patch(ctx, n.target(subresource),
		client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T instead of a node", obj)
	}
	return node, nil
}
