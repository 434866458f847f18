package decision_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

const (
	always    = corev1.RestartPolicyAlways
	never     = corev1.RestartPolicyNever
	onFailure = corev1.RestartPolicyOnFailure
)

// row is a situation with the expected status and actions.
type row struct {
	scene
	said, todo string
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			in := c.build()
			d := decision.Decide(in)
			if got := said(d.Status); got != c.said {
				t.Errorf("said %q\nnot  %q", got, c.said)
			}
			if got := todo(d.Actions, in.Pod); got != c.todo {
				t.Errorf("done %q\nnot  %q", got, c.todo)
			}
			want := c.stage
			if decision.Terminal(d.Status.Phase) {
				want = max(want, decision.Terminating)
			}
			if d.Stage != want {
				t.Errorf("stage %d", d.Stage)
			}
		})
	}
}

func failed(probe string) map[string]decision.ProbeResult {
	return map[string]decision.ProbeResult{probe: decision.ProbeFailure}
}

func passed(probe string) map[string]decision.ProbeResult {
	return map[string]decision.ProbeResult{probe: decision.ProbeSuccess}
}

func TestSandboxes(t *testing.T) {
	check(t, map[string]row{
		"a new pod":                              {scene{}, "Pending main=ContainerCreating", "kill-pod sandbox#0 start(main)"},
		"a new pod with init":                    {scene{inits: "a b"}, "Pending a=PodInitializing b=PodInitializing main=PodInitializing", "kill-pod sandbox#0 start(a)"},
		"on the host network, without a sandbox": {scene{sandbox: "noip", change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }, situation: func(in *decision.Situation) { in.Observed.Sandboxes[0].Namespaces.Network = cri.NamespaceNode }}, "Pending main=ContainerCreating", "start(main)"},
		"a first sandbox, never":                 {scene{policy: never, containers: "old:main=1", names: "main more"}, "Pending main=1 more=ContainerCreating", "kill-pod sandbox#0 start(main) start(more)"},
		"it died before init was done":           {scene{policy: onFailure, sandbox: "dead", inits: "a", containers: "a=1"}, "Pending a=1 main=PodInitializing", "kill-pod sandbox#2 start(a)"},
		"it died, all have succeeded":            {scene{policy: onFailure, sandbox: "dead", names: "main more", containers: "main=0 more=0", before: func(s *corev1.PodStatus) { s.Phase = corev1.PodRunning }}, "Succeeded main=0 more=0", ""},
		"nothing started yet":                    {scene{sandbox: "ready", names: "main more"}, "Pending main=ContainerCreating more=ContainerCreating", "start(main) start(more)"},
		"the sandbox died":                       {scene{sandbox: "dead", containers: "main=137"}, "Running main=137", "kill-pod sandbox#2 start(main)"},
		"the sandbox died, init":                 {scene{sandbox: "dead", inits: "a", containers: "main=137 a=0"}, "Running a=0 main=137", "kill-pod sandbox#2 start(a)"},
		"the sandbox died, never":                {scene{policy: never, sandbox: "dead", containers: "main=137"}, "Failed main=137", ""},
		"the sandbox died, one of never":         {scene{policy: never, sandbox: "dead", names: "main more", containers: "main=137"}, "Pending main=137 more=ContainerCreating", "kill-pod"},
		"the sandbox died before, never":         {scene{policy: never, sandbox: "dead"}, "Pending main=ContainerCreating", "kill-pod sandbox#2 start(main)"},
		"the sandbox died, on failure":           {scene{policy: onFailure, sandbox: "dead", names: "main more", containers: "main=0 more=137"}, "Running main=0 more=137", "kill-pod sandbox#2 start(more)"},
		"it died, one not yet started":           {scene{policy: onFailure, sandbox: "dead", names: "main more", containers: "main=0"}, "Pending main=0 more=ContainerCreating", "kill-pod sandbox#2 start(more)"},
		// As upstream, only the pod's policy decides whether there is a new sandbox, not those of its containers.
		"it died, its own always":      {scene{policy: never, sandbox: "dead", names: "main:Always", containers: "main=137"}, "Running main=137", "kill-pod"},
		"it died, its own never":       {scene{sandbox: "dead", names: "main:Never more", containers: "main=0 more=137"}, "Running main=0 more=137", "kill-pod sandbox#2 start(main) start(more)"},
		"it died, all their own never": {scene{sandbox: "dead", names: "main:Never more:Never", containers: "main=0"}, "Pending main=0 more=ContainerCreating", "kill-pod sandbox#2 start(main) start(more)"},
		"it died, its own on failure":  {scene{sandbox: "dead", names: "main:OnFailure more", containers: "main=0 more=137"}, "Running main=0 more=137", "kill-pod sandbox#2 start(more)"},
		"it died, never, a rule":       {scene{policy: never, sandbox: "dead", names: "main:Never!137", containers: "main=137"}, "Running main=137", "kill-pod"},
		"it died, the same with init":  {scene{sandbox: "dead", inits: "a", names: "main:OnFailure!0", containers: "main=0 a=0"}, "Running a=0 main=0", "kill-pod"},
		"it died, a rule for success":  {scene{sandbox: "dead", names: "main:OnFailure!0", containers: "main=0"}, "Running main=0", "kill-pod"},
		"it died, exit status unknown": {scene{policy: onFailure, sandbox: "dead", inits: "a", names: "main", containers: "main=unknown a=0"}, "Pending a=0 main=", "kill-pod sandbox#2 start(a)"},
		"the sandbox lost its address": {scene{sandbox: "noip", containers: "main=running"}, "Running main=running*", "kill-pod sandbox#2 start(main)"},
		"on the host's network":        {scene{sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }}, "Running main=running*", "kill-pod sandbox#2 start(main)"},
		"two sandboxes":                {scene{sandbox: "two", containers: "main=running"}, "Running main=running*", "kill-pod sandbox#2 start(main)"},
	})
}

func TestRestartPolicies(t *testing.T) {
	check(t, map[string]row{
		"all running":                  {scene{sandbox: "ready", containers: "main=running"}, "Running main=running*", ""},
		"one is missing":               {scene{sandbox: "ready", names: "main more", containers: "main=running"}, "Pending main=running* more=ContainerCreating", "start(more)"},
		"exited, always":               {scene{sandbox: "ready", containers: "main=0"}, "Running main=0", "start(main)"},
		"failed, always":               {scene{sandbox: "ready", containers: "main=3"}, "Running main=3", "start(main)"},
		"succeeded, on failure":        {scene{policy: onFailure, sandbox: "ready", containers: "main=0"}, "Succeeded main=0", ""},
		"exited badly, on failure":     {scene{policy: onFailure, sandbox: "ready", containers: "main=1"}, "Running main=1", "start(main)"},
		"one succeeded, one failed":    {scene{policy: onFailure, sandbox: "ready", names: "main more", containers: "main=0 more=1"}, "Running main=0 more=1", "start(more)"},
		"succeeded, never":             {scene{policy: never, sandbox: "ready", containers: "main=0"}, "Succeeded main=0", ""},
		"exited badly, never":          {scene{policy: never, sandbox: "ready", containers: "main=1"}, "Failed main=1", ""},
		"one of two badly, never":      {scene{policy: never, sandbox: "ready", names: "main more", containers: "main=0 more=1"}, "Failed main=0 more=1", ""},
		"one done, one runs, never":    {scene{policy: never, sandbox: "ready", names: "main more", containers: "main=0 more=running"}, "Running main=0 more=running*", ""},
		"one done, one new, never":     {scene{policy: never, sandbox: "ready", names: "main more", containers: "main=0"}, "Pending main=0 more=ContainerCreating", "start(more)"},
		"deleted, not restarted":       {scene{sandbox: "ready", names: "main more", containers: "main=running more=1", change: deleted(30)}, "Running main=running* more=1", ""},
		"its own always":               {scene{policy: never, sandbox: "ready", names: "main:Always", containers: "main=0"}, "Running main=0", "start(main)"},
		"its own on failure, badly":    {scene{policy: never, sandbox: "ready", names: "main:OnFailure", containers: "main=1"}, "Running main=1", "start(main)"},
		"its own on failure, well":     {scene{sandbox: "ready", names: "main:OnFailure", containers: "main=0"}, "Succeeded main=0", ""},
		"its own never":                {scene{sandbox: "ready", names: "main:Never", containers: "main=1"}, "Failed main=1", ""},
		"its own never beside others":  {scene{sandbox: "ready", names: "main:Never more", containers: "main=1 more=1"}, "Running main=1 more=1", "start(more)"},
		"a rule restarts it":           {scene{policy: never, sandbox: "ready", names: "main:Never!42", containers: "main=42"}, "Running main=42", "start(main)"},
		"no rule restarts it":          {scene{policy: never, sandbox: "ready", names: "main:Never!42", containers: "main=41"}, "Failed main=41", ""},
		"a rule, succeeded":            {scene{policy: never, sandbox: "ready", names: "main:OnFailure!0", containers: "main=0"}, "Running main=0", "start(main)"},
		"a rule for all":               {scene{policy: never, sandbox: "ready", names: "main:Never!!42 more", containers: "main=42 more=running"}, "Running main=42 more=running*", "start(main)"},
		"created but never started":    {scene{sandbox: "ready", containers: "main=created"}, "Pending main=", "start(main)"},
		"in an unknown state":          {scene{sandbox: "ready", containers: "main=unknown"}, "Pending main=", `kill(main: Container is in "unknown" state, try killing it before restart) start(main)`},
		"restarted before":             {scene{sandbox: "ready", containers: "main=running#2 main=1#1"}, "Running main=running<1#2*", ""},
		"a changed image":              {scene{sandbox: "ready", containers: "main=running", situation: changeImage}, "Running main=running*", "kill(main: Container main definition changed, will be restarted) start(main)"},
		"a changed image, never":       {scene{policy: never, sandbox: "ready", containers: "main=running", situation: changeImage}, "Running main=running*", "kill(main: Container main definition changed, will be restarted) start(main)"},
		"an ephemeral container":       {scene{sandbox: "ready", containers: "main=running", change: withDebugger}, "Running main=running* debug=ContainerCreating", "start(debug)"},
		"an ephemeral one during init": {scene{sandbox: "ready", inits: "a", containers: "a=running", change: withDebugger}, "Pending a=running+ main=PodInitializing debug=PodInitializing", "start(debug)"},
		"an ephemeral one that died":   {scene{sandbox: "ready", containers: "main=running debug=1", change: withDebugger}, "Running main=running* debug=1", ""},
	})
}

func TestProbes(t *testing.T) {
	check(t, map[string]row{
		"liveness failed":             {scene{sandbox: "ready", containers: "main=running", probes: failed("main Liveness")}, "Running main=running*", "kill(main: Container main failed liveness probe, will be restarted) start(main)"},
		"liveness passed":             {scene{sandbox: "ready", containers: "main=running", probes: passed("main Liveness")}, "Running main=running*", ""},
		"liveness failed, never":      {scene{policy: never, sandbox: "ready", names: "main more", containers: "main=running more=running", probes: failed("main Liveness")}, "Running main=running* more=running*", "kill(main: Container main failed liveness probe)"},
		"the last one, never":         {scene{policy: never, sandbox: "ready", containers: "main=running", probes: failed("main Liveness")}, "Running main=running*", "kill-pod"},
		"its own never":               {scene{sandbox: "ready", names: "main:Never more", containers: "main=running more=running", probes: failed("main Liveness")}, "Running main=running* more=running*", "kill(main: Container main failed liveness probe)"},
		"its own always":              {scene{policy: never, sandbox: "ready", names: "main:Always more", containers: "main=running more=running", probes: failed("main Liveness")}, "Running main=running* more=running*", "kill(main: Container main failed liveness probe, will be restarted) start(main)"},
		"rules are for exit codes":    {scene{policy: never, sandbox: "ready", names: "main:Never!1 more", containers: "main=running more=running", probes: failed("main Liveness")}, "Running main=running* more=running*", "kill(main: Container main failed liveness probe)"},
		"start-up failed":             {scene{sandbox: "ready", containers: "main=running", probes: failed("main Startup")}, "Running main=running*", "kill(main: Container main failed startup probe, will be restarted) start(main)"},
		"start-up awaited":            {scene{sandbox: "ready", containers: "main=running", change: withProbe(&corev1.Container{StartupProbe: &corev1.Probe{}})}, "Running main=running", ""},
		"start-up passed":             {scene{sandbox: "ready", containers: "main=running", change: withProbe(&corev1.Container{StartupProbe: &corev1.Probe{}}), probes: passed("main Startup")}, "Running main=running*", ""},
		"readiness awaited":           {scene{sandbox: "ready", containers: "main=running", change: withProbe(&corev1.Container{ReadinessProbe: &corev1.Probe{}})}, "Running main=running+", ""},
		"readiness failed":            {scene{sandbox: "ready", containers: "main=running", change: withProbe(&corev1.Container{ReadinessProbe: &corev1.Probe{}}), probes: failed("main Readiness")}, "Running main=running+", ""},
		"ready but not started":       {scene{sandbox: "ready", containers: "main=running", change: withProbe(&corev1.Container{StartupProbe: &corev1.Probe{}, ReadinessProbe: &corev1.Probe{}}), probes: passed("main Readiness")}, "Running main=running", ""},
		"changed and liveness failed": {scene{sandbox: "ready", containers: "main=running", situation: changeImage, probes: failed("main Liveness")}, "Running main=running*", "kill(main: Container main definition changed, will be restarted) start(main)"},
		"what ended is not unready":   {scene{sandbox: "ready", containers: "main=1", probes: failed("main Liveness")}, "Running main=1", "start(main)"},
	})
}

func TestInitContainers(t *testing.T) {
	check(t, map[string]row{
		"the first runs":               {scene{sandbox: "ready", inits: "a b", containers: "a=running"}, "Pending a=running+ b=PodInitializing main=PodInitializing", ""},
		"the first is done":            {scene{sandbox: "ready", inits: "a b", containers: "a=0"}, "Pending a=0 b=PodInitializing main=PodInitializing", "start(b)"},
		"the last is done":             {scene{sandbox: "ready", inits: "a b", containers: "b=0 a=0"}, "Pending a=0 b=0 main=PodInitializing", "start(main)"},
		"the last is done, one lost":   {scene{sandbox: "ready", inits: "a b", containers: "b=0"}, "Pending a=PodInitializing b=0 main=PodInitializing", "start(main)"},
		"failed":                       {scene{sandbox: "ready", inits: "a b", containers: "a=1"}, "Pending a=1 b=PodInitializing main=PodInitializing", "start(a)"},
		"failed, on failure":           {scene{policy: onFailure, sandbox: "ready", inits: "a b", containers: "a=1"}, "Pending a=1 b=PodInitializing main=PodInitializing", "start(a)"},
		"failed, never":                {scene{policy: never, sandbox: "ready", inits: "a b", containers: "a=1"}, "Failed a=1 b=PodInitializing main=PodInitializing", ""},
		"failed, its own never":        {scene{sandbox: "ready", inits: "a:Never b", containers: "a=1"}, "Failed a=1 b=PodInitializing main=PodInitializing", ""},
		"failed, its own on failure":   {scene{policy: never, sandbox: "ready", inits: "a:OnFailure b", containers: "a=1"}, "Pending a=1 b=PodInitializing main=PodInitializing", "start(a)"},
		"failed, a rule":               {scene{policy: never, sandbox: "ready", inits: "a:Never!3 b", containers: "a=3"}, "Pending a=3 b=PodInitializing main=PodInitializing", "start(a)"},
		"failed after a sidecar":       {scene{policy: never, sandbox: "ready", inits: "s+ b", containers: "b=1 s=running"}, "Failed s=running* b=1 main=PodInitializing", ""},
		"failed, the sidecar is lost":  {scene{policy: never, sandbox: "ready", inits: "s+ b", containers: "b=1"}, "Failed s=PodInitializing b=1 main=PodInitializing", ""},
		"created":                      {scene{sandbox: "ready", inits: "a b", containers: "a=created"}, "Pending a= b=PodInitializing main=PodInitializing", "start(a)"},
		"unknown":                      {scene{sandbox: "ready", inits: "a", containers: "a=unknown"}, "Pending a= main=PodInitializing", `kill(a: Init container is in "unknown" state, try killing it before restart) start(a)`},
		"unknown, never":               {scene{policy: never, sandbox: "ready", inits: "a", containers: "a=unknown"}, "Pending a= main=PodInitializing", "kill-pod"},
		"unknown, its own always":      {scene{policy: never, sandbox: "ready", inits: "a:OnFailure", containers: "a=unknown"}, "Pending a= main=PodInitializing", `kill(a: Init container is in "unknown" state, try killing it before restart) start(a)`},
		"unknown, a rule for failures": {scene{policy: never, sandbox: "ready", inits: "a:Never!1", containers: "a=unknown"}, "Pending a= main=PodInitializing", "kill-pod"},
		"a sidecar comes later":        {scene{sandbox: "ready", inits: "a s+", containers: "a=running"}, "Pending a=running+ s=PodInitializing main=PodInitializing", ""},
		"failed, the pod runs":         {scene{sandbox: "ready", inits: "a", containers: "main=running a=1"}, "Running a=1 main=running*", ""},
		"created, the pod runs":        {scene{sandbox: "ready", inits: "a", containers: "main=running a=created"}, "Pending a= main=running*", ""},
		"all are lost, the pod runs":   {scene{sandbox: "ready", inits: "a b", containers: "main=running"}, "Running a=0 b=0 main=running*", ""},
		"one of an earlier sandbox":    {scene{sandbox: "ready", inits: "a b", containers: "old:a=0 old:b=0"}, "Pending a=0 b=0 main=PodInitializing", "start(a)"},
		"a sidecar runs, the next":     {scene{sandbox: "ready", inits: "s+ b", containers: "s=running"}, "Pending s=running* b=PodInitializing main=PodInitializing", "start(b)"},
		"sidecars run":                 {scene{sandbox: "ready", inits: "s+ u+", containers: "s=running u=running"}, "Pending s=running* u=running* main=PodInitializing", "start(main)"},
		"a sidecar died":               {scene{sandbox: "ready", inits: "s+", containers: "main=running s=1"}, "Running s=1 main=running*", "start(s)"},
		"a sidecar died, never":        {scene{policy: never, sandbox: "ready", inits: "s+", containers: "main=running s=1"}, "Running s=1 main=running*", "start(s)"},
		"a sidecar is lost":            {scene{sandbox: "ready", inits: "s+", containers: "main=running"}, "Pending s=PodInitializing main=running*", "start(s)"},
		"one died while the next ran":  {scene{sandbox: "ready", inits: "s+ b", containers: "b=running s=0"}, "Pending s=0 b=running+ main=PodInitializing", "start(s)"},
		"one awaits its start-up":      {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", change: withStartup}, "Pending s=running b=PodInitializing main=PodInitializing", ""},
		"one passed its start-up":      {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", change: withStartup, probes: passed("s Startup")}, "Pending s=running* b=PodInitializing main=PodInitializing", "start(b)"},
		"one failed its start-up":      {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", change: withStartup, probes: failed("s Startup")}, "Pending s=running b=PodInitializing main=PodInitializing", "kill(s: Init container s failed startup probe) start(s)"},
		"one changed, start-up failed": {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", change: withStartup, probes: failed("s Startup"), situation: changeImage}, "Pending s=running b=PodInitializing main=PodInitializing", "kill(s: Init container s failed startup probe) start(s)"},
		"one is not alive":             {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", probes: failed("s Liveness")}, "Pending s=running* b=PodInitializing main=PodInitializing", "kill(s: Init container s failed liveness probe) start(s) start(b)"},
		"one has changed":              {scene{sandbox: "ready", inits: "s+", containers: "main=running s=running", situation: changeImage}, "Running s=running* main=running*", "kill(s: Init container s definition changed) kill(main: Container main definition changed, will be restarted) start(s) start(main)"},
		"one does not keep a pod":      {scene{policy: never, sandbox: "ready", inits: "s+", containers: "main=0 s=running"}, "Running s=running* main=0", "kill-pod"},
		"a dead one does not keep one": {scene{policy: never, sandbox: "ready", inits: "s+", containers: "main=0 s=0"}, "Succeeded s=0 main=0", ""},
	})
}

func TestWaits(t *testing.T) {
	crash := map[string]decision.Waiting{"main": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	check(t, map[string]row{
		"backing off":                     {scene{sandbox: "ready", containers: "main=1", backoff: 10 * time.Second}, "Running main=1", "wait-10s(main)"},
		"already reported as backing off": {scene{sandbox: "ready", containers: "main=1", backoff: 10 * time.Second, waiting: crash}, "Running main=CrashLoopBackOff<1", "wait-10s(main)"},
		"back-off expired":                {scene{sandbox: "ready", containers: "main=1", backoff: 5 * time.Second}, "Running main=1", "start(main)"},
		"init, backing off":               {scene{sandbox: "ready", inits: "a", containers: "a=1", backoff: 10 * time.Second}, "Pending a=1 main=PodInitializing", "wait-10s(a)"},
		"one waits, one starts":           {scene{sandbox: "ready", names: "main more", containers: "main=1", backoff: 10 * time.Second}, "Pending main=1 more=ContainerCreating", "wait-10s(main) start(more)"},
		"in a new sandbox":                {scene{sandbox: "dead", containers: "main=1", backoff: 10 * time.Second}, "Running main=1", "kill-pod sandbox#2 wait-10s(main)"},
		"never restarted, no back-off":    {scene{policy: never, sandbox: "ready", names: "main more", containers: "main=1 more=running", backoff: 10 * time.Second, waiting: crash}, "Running main=1 more=running*", ""},
		"waiting, and running":            {scene{sandbox: "ready", containers: "main=running", waiting: crash}, "Running main=running*", ""},
		"waiting, being ended":            {scene{sandbox: "ready", containers: "main=1", waiting: crash, change: deleted(1)}, "Running main=1", "kill-pod"},
		"init, waiting":                   {scene{sandbox: "ready", inits: "a b", containers: "a=1", waiting: map[string]decision.Waiting{"a": crash["main"]}}, "Pending a=CrashLoopBackOff<1 b=PodInitializing main=PodInitializing", "start(a)"},
		"init, not started":               {scene{sandbox: "ready", inits: "a b", containers: "a=created", waiting: map[string]decision.Waiting{"a": crash["main"]}}, "Pending a=CrashLoopBackOff b=PodInitializing main=PodInitializing", "start(a)"},
		"init, lost since":                {scene{sandbox: "ready", inits: "a", containers: "main=running", waiting: map[string]decision.Waiting{"a": crash["main"]}}, "Running a=0 main=running*", ""},
		"init, done meanwhile":            {scene{sandbox: "ready", inits: "a b", containers: "a=0", waiting: map[string]decision.Waiting{"a": crash["main"]}}, "Pending a=0 b=PodInitializing main=PodInitializing", "start(b)"},
		"a sidecar, waiting":              {scene{sandbox: "ready", inits: "s+", containers: "main=running s=0", waiting: map[string]decision.Waiting{"s": crash["main"]}}, "Running s=CrashLoopBackOff<0 main=running*", "start(s)"},
		"no image": {scene{sandbox: "ready", waiting: map[string]decision.Waiting{"main": {Reason: "ErrImagePull"}}},
			"Pending main=ErrImagePull", "start(main)"},
	})
}

func TestEnds(t *testing.T) {
	deadline := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
	}
	check(t, map[string]row{
		"the deadline is near":      {scene{sandbox: "ready", containers: "main=running", change: deadline(61)}, "Running main=running*", ""},
		"the deadline has come":     {scene{sandbox: "ready", containers: "main=running", change: deadline(60)}, "Failed(DeadlineExceeded) main=running*", ""},
		"it ended before":           {scene{sandbox: "ready", containers: "main=0", change: deadline(60), before: func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded }}, "Succeeded main=0", ""},
		"it has failed already":     {scene{sandbox: "ready", containers: "main=running", before: func(s *corev1.PodStatus) { s.Phase, s.Reason = corev1.PodFailed, "Evicted" }}, "Failed(Evicted) main=running*", ""},
		"over according to the API": {scene{sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, before: func(s *corev1.PodStatus) { s.Phase = corev1.PodRunning }}, "Succeeded main=running*", ""},
		"ending":                    {scene{stage: decision.Terminating, sandbox: "ready", containers: "main=running"}, "Running main=running*", "kill-pod"},
		"ended":                     {scene{stage: decision.Terminating, sandbox: "dead", containers: "main=0"}, "Running main=0", "kill-pod"},
		"over, succeeded":           {scene{stage: decision.Over, sandbox: "dead", containers: "main=0"}, "Succeeded main=0", ""},
		"over, failed":              {scene{stage: decision.Over, sandbox: "dead", names: "main more", containers: "main=0 more=137"}, "Failed main=0 more=137", ""},
		"over, never started":       {scene{stage: decision.Over}, "Failed main=137", ""},
		"over, never initialized":   {scene{stage: decision.Over, inits: "a b", sandbox: "dead", containers: "a=1"}, "Failed a=1 b=PodInitializing main=PodInitializing", ""},
		"over, lost":                {scene{stage: decision.Over, before: wasRunning}, "Failed main=137<137#3", ""},
		"over, of a lost spec":      {scene{stage: decision.Over, change: func(p *corev1.Pod) { p.Spec.Containers = nil }}, "Failed", ""},
		"over, with a sidecar":      {scene{stage: decision.Over, inits: "s+", sandbox: "dead", containers: "main=0 s=137"}, "Succeeded s=137 main=0", ""},
		"a lost container":          {scene{sandbox: "ready", before: wasRunning}, "Running main=ContainerCreating<137#3", "start(main)"},
		"a lost one, being ended":   {scene{sandbox: "ready", before: wasRunning, change: deleted(1)}, "Running main=ContainerCreating<137#2", "kill-pod"},
		"one that left no trace":    {scene{sandbox: "ready", containers: "main=unknown", before: wasRunning}, "Running main=137#3", `kill(main: Container is in "unknown" state, try killing it before restart) start(main)`},
		"one that ended is lost":    {scene{policy: never, sandbox: "ready", names: "main more", containers: "more=running", before: wasOver}, "Running main=3#2 more=running*", "start(main)"},
		"its last instance is lost": {scene{sandbox: "ready", containers: "main=running#3", before: func(s *corev1.PodStatus) { wasOver(s); s.ContainerStatuses[0].ContainerID = "simulated://other" }}, "Running main=running<3#3*", ""},
		"and how often it ran":      {scene{sandbox: "ready", containers: "main=running", before: func(s *corev1.PodStatus) { wasOver(s); s.ContainerStatuses[0].ContainerID = "simulated://other" }}, "Running main=running<3#3*", ""},
		"a pod of another kubelet":  {scene{sandbox: "ready", containers: "main=running#1", before: wasRunning}, "Running main=running#2*", ""},
	})
}

func deleted(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: t0}, &grace
	}
}

func changeImage(in *decision.Situation) {
	for _, list := range [][]corev1.Container{in.Pod.Spec.InitContainers, in.Pod.Spec.Containers} {
		for i := range list {
			list[i].Image += ":2"
		}
	}
}

func withStartup(p *corev1.Pod) { p.Spec.InitContainers[0].StartupProbe = &corev1.Probe{} }

func withProbe(probes *corev1.Container) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probes.StartupProbe, probes.ReadinessProbe, probes.LivenessProbe
	}
}

func withDebugger(p *corev1.Pod) {
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"},
	}}
}

func wasRunning(s *corev1.PodStatus) {
	s.Phase = corev1.PodRunning
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 2, ContainerID: "simulated://id-main",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(t0)}}}}
}

func wasOver(s *corev1.PodStatus) {
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 2, ContainerID: "simulated://id-main",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}
}

func TestEphemeralContainerThatEndedStaysSo(t *testing.T) {
	in := scene{sandbox: "ready", containers: "main=running", change: withDebugger}.build()
	starts := func() bool {
		return slices.ContainsFunc(decision.Decide(in).Actions.Start, func(s decision.Start) bool { return s.Kind == decision.Ephemeral })
	}
	if !starts() {
		t.Error("a new ephemeral container is not started")
	}
	in.Pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{
		Name: "debug", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
	}}
	if starts() {
		t.Error("one that has ended is started again")
	}
	in.Pod.Status.EphemeralContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	if !starts() {
		t.Error("one that waits is not started")
	}
	if start := decision.Decide(in).Actions.Start[0]; start.Attempt != 0 {
		t.Errorf("its first attempt is %d", start.Attempt)
	}
}

// TestAgain: the next decision is due at the pod's deadline, or when a container may be restarted.
func TestAgain(t *testing.T) {
	limit := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
	}
	for name, c := range map[string]struct {
		scene
		want time.Duration // after t0; 0 means never
	}{
		"nothing":                   {scene{sandbox: "ready", containers: "main=running"}, 0},
		"a deadline":                {scene{sandbox: "ready", containers: "main=running", change: limit(90)}, 90 * time.Second},
		"a wait":                    {scene{sandbox: "ready", containers: "main=1", backoff: 10 * time.Second}, 65 * time.Second},
		"a wait, then the end":      {scene{sandbox: "ready", containers: "main=1", backoff: 10 * time.Second, change: limit(90)}, 65 * time.Second},
		"the end before":            {scene{sandbox: "ready", containers: "main=1", backoff: 10 * time.Second, change: limit(62)}, 62 * time.Second},
		"no wait":                   {scene{sandbox: "ready", containers: "main=1", change: limit(90)}, 90 * time.Second},
		"the end has come":          {scene{sandbox: "ready", containers: "main=running", change: limit(60)}, 0},
		"ending for another reason": {scene{stage: decision.Terminating, sandbox: "ready", containers: "main=running", change: limit(90)}, 0},
	} {
		got := decision.Decide(c.build()).Again
		if want := t0.Add(c.want); c.want == 0 && !got.IsZero() || c.want > 0 && !got.Equal(want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOrderOfTheEnd: everything that may be running is stopped at once, except sidecars, which wait for the containers
// and for the sidecars after them; then the sandboxes.
func TestOrderOfTheEnd(t *testing.T) {
	in := scene{
		stage: decision.Terminating, sandbox: "two", inits: "s+ a b u+", names: "main more gone",
		containers: "u=running main=running more=unknown s=running gone=0 b=running a=created", change: deleted(30),
	}.build()
	a := decision.Decide(in).Actions
	var got []string
	for _, k := range a.Kill {
		got = append(got, k.Name+"<"+strings.Join(k.After, ","))
		if k.Grace != 30 || k.Message != "Stopping container "+k.Name || k.ID != "id-"+k.Name {
			t.Errorf("%+v", k)
		}
	}
	want := []string{"u<main,more", "main<", "more<", "s<main,more,u", "b<"}
	if !a.KillPod || !slices.Equal(got, want) || !slices.Equal(a.StopSandboxes, []string{"s1", "s0"}) || len(a.Start) > 0 {
		t.Errorf("%v, then %v", got, a.StopSandboxes)
	}
}

// TestGrace: the grace period is the pod's, or the rest of it after a deletion; at least a second, for evicted pods at
// most the eviction's, and for a container that failed a probe the probe's.
func TestGrace(t *testing.T) {
	spec := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	both := func(p *corev1.Pod) { spec(60)(p); deleted(7)(p) }
	probes := func(p *corev1.Pod) {
		spec(60)(p)
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(5))}
		p.Spec.Containers[0].StartupProbe = &corev1.Probe{}
	}
	for name, c := range map[string]struct {
		scene
		max, want int64
	}{
		"none":                                 {scene{stage: decision.Terminating}, 0, 1},
		"the spec's":                           {scene{stage: decision.Terminating, change: spec(60)}, 0, 60},
		"none by the spec":                     {scene{stage: decision.Terminating, change: spec(0)}, 0, 1},
		"the deletion's":                       {scene{stage: decision.Terminating, change: both}, 0, 7},
		"evicted":                              {scene{stage: decision.Terminating, change: spec(60)}, 3, 3},
		"evicted, with a shorter grace period": {scene{stage: decision.Terminating, change: both}, 9, 7},
		"liveness":                             {scene{probes: failed("main Liveness"), change: probes}, 0, 5},
		"start-up, without its own":            {scene{probes: failed("main Startup"), change: probes}, 0, 60},
		"start-up, with its own":               {scene{probes: failed("main Startup"), change: func(p *corev1.Pod) { probes(p); p.Spec.Containers[0].StartupProbe = p.Spec.Containers[0].LivenessProbe }}, 0, 5},
		"liveness, being deleted":              {scene{probes: failed("main Liveness"), names: "main more", change: func(p *corev1.Pod) { probes(p); deleted(7)(p) }}, 0, 7},
	} {
		c.sandbox, c.containers = "ready", "main=running more=running"
		in := c.build()
		in.MaxGrace = c.max
		kills := decision.Decide(in).Actions.Kill
		if len(kills) == 0 || kills[0].Grace != c.want {
			t.Errorf("%s: %+v", name, kills)
		}
	}
}

// TestAttempts: an instance counts as one more restart than the latest, unless that never started and was not reported.
// The latest dead instance is kept, others are removed.
func TestAttempts(t *testing.T) {
	crash := map[string]decision.Waiting{"main": {Reason: decision.ReasonRunContainerError}}
	for name, c := range map[string]struct {
		scene
		attempt uint32
		replace string
	}{
		"the first":                    {scene{}, 0, ""},
		"the second":                   {scene{containers: "main=1"}, 1, ""},
		"a later one":                  {scene{containers: "main=1#4 main=1#3 main=1#2"}, 5, "main#3 main#2"},
		"one never started":            {scene{containers: "main=created#4 main=1#3"}, 4, "main#4"},
		"its start failed":             {scene{containers: "main=created#4 main=1#3", waiting: crash}, 5, "main#3"},
		"beside another":               {scene{names: "main more", containers: "more=running#2 more=1#1 main=1#1 main=1"}, 2, "main#0"},
		"in place of one that runs":    {scene{containers: "main=running#1 main=1", probes: failed("main Liveness")}, 2, ""},
		"lost while it ran":            {scene{before: wasRunning}, 3, ""},
		"lost after its end":           {scene{before: wasOver}, 3, ""},
		"lost before its first status": {scene{before: func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}} }}, 0, ""},
	} {
		c.sandbox = "ready"
		start := decision.Decide(c.build()).Actions.Start
		if len(start) != 1 {
			t.Errorf("%s: %+v", name, start)
			continue
		}
		var replace []string
		for _, o := range start[0].Replace {
			replace = append(replace, o.Metadata.Name+"#"+string(rune('0'+o.Metadata.Attempt)))
		}
		if start[0].Attempt != c.attempt || strings.Join(replace, " ") != c.replace {
			t.Errorf("%s: %d instead of %v", name, start[0].Attempt, replace)
		}
	}
}

// TestNewSandbox: which sandbox is replaced, and which containers must be removed first.
func TestNewSandbox(t *testing.T) {
	a := decision.Decide(scene{sandbox: "dead", inits: "a b", containers: "main=1 b=0 old:a=0"}.build()).Actions
	var names []string
	for _, c := range a.Remove {
		names = append(names, c.Metadata.Name)
	}
	if a.SandboxID != "s1" || a.Attempt != 2 || !slices.Equal(names, []string{"b", "a"}) || len(a.StopSandboxes) > 0 {
		t.Errorf("%+v", a)
	}
	a = decision.Decide(scene{sandbox: "ready", containers: "main=running"}.build()).Actions
	if !a.None() || a.SandboxID != "s1" || len(a.Remove) > 0 {
		t.Errorf("%+v", a)
	}
}

func TestNothingToDo(t *testing.T) {
	for i, a := range []decision.Actions{
		{KillPod: true}, {CreateSandbox: true}, {Kill: []decision.Kill{{}}}, {Start: []decision.Start{{}}},
	} {
		if a.None() {
			t.Errorf("%d: nothing to do", i)
		}
	}
	if !(decision.Actions{SandboxID: "s", Attempt: 1}).None() {
		t.Error("something to do")
	}
}

// TestEndOfAPodThatRuns: a pod in which nothing should keep running is stopped as a whole, and nothing is started.
func TestEndOfAPodThatRuns(t *testing.T) {
	in := scene{
		policy: never, sandbox: "ready", inits: "s+ u+", containers: "main=running s=running u=1",
		probes: failed("main Liveness"), change: withDebugger,
	}.build()
	a := decision.Decide(in).Actions
	var names []string
	for _, k := range a.Kill {
		names = append(names, k.Name)
	}
	if !a.KillPod || a.CreateSandbox || !slices.Equal(names, []string{"main", "s"}) || len(a.StopSandboxes) != 1 || len(a.Start) > 0 {
		t.Errorf("%+v", a)
	}
}

// TestBareSituations: parts that the situation lacks count as absent.
func TestBareSituations(t *testing.T) {
	in := scene{sandbox: "ready", containers: "main=running", change: withProbe(&corev1.Container{ReadinessProbe: &corev1.Probe{}})}.build()
	in.Probes = nil
	if got := said(decision.Decide(in).Status); got != "Running main=running+" {
		t.Error(got)
	}
	in = scene{sandbox: "ready", containers: "main=running", situation: func(in *decision.Situation) { in.Observed.Containers[0].Annotations = nil }}.build()
	if a := decision.Decide(in).Actions; !a.None() {
		t.Errorf("a container without a hash: %+v", a)
	}
}

func TestBackoff(t *testing.T) {
	b := decision.NewBackoff(10*time.Second, 300*time.Second, 10*time.Minute)
	at := t0
	for i, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
		want := time.Duration(seconds) * time.Second
		if until, _ := b.Since("k", at, at); i == 0 && !until.IsZero() {
			t.Error("the first attempt has to wait")
		}
		if got := b.Next("k", at, at); got != want {
			t.Errorf("the next wait is %v, not %v", got, want)
		}
		if until, delay := b.Since("k", at, at); delay != want || !until.Equal(at.Add(delay)) {
			t.Errorf("wait %d is %v until %v, want %v", i, delay, until, want)
		}
		if until, delay := b.SinceUpdate("k", at.Add(time.Second)); delay != want || !until.Equal(at.Add(delay)) {
			t.Errorf("wait %d is %v until %v, want %v", i, delay, until, want)
		}
		at = at.Add(want)
		if until, _ := b.Since("k", at.Add(-want), at); !until.IsZero() {
			t.Errorf("still waiting after %v", want)
		}
		if until, _ := b.SinceUpdate("k", at); !until.IsZero() {
			t.Errorf("still waiting after %v", want)
		}
	}
	at = t0
	b.Restore("k", 300*time.Second, at)
	if _, delay := b.Since("k", at.Add(10*time.Minute), at.Add(10*time.Minute)); delay != 300*time.Second {
		t.Errorf("after a pause that is just too short the wait is %v", delay)
	}
	if got := b.Next("k", at.Add(10*time.Minute), at); got != 300*time.Second {
		t.Errorf("after a pause that is just too short the next wait is %v", got)
	}
	if got := b.Next("unheard-of", time.Time{}, at); got != 10*time.Second {
		t.Errorf("the first wait after an end that nobody knows is %v", got)
	}
	if got := b.Next("k", at.Add(10*time.Minute+1), at); got != 10*time.Second {
		t.Errorf("after a long pause the wait is %v", got)
	}
	if until, _ := b.Since("other", at, at.Add(-time.Hour)); !until.IsZero() {
		t.Error("what was never tried waits")
	}
	if until, _ := b.SinceUpdate("other", time.Time{}); !until.IsZero() {
		t.Error("what was never tried waits")
	}
	other := decision.NewBackoff(time.Second, time.Second, time.Hour)
	other.Restore("k", 40*time.Second, t0)
	if until, _ := other.Since("k", t0, t0); !until.Equal(t0.Add(40 * time.Second)) {
		t.Errorf("what was remembered lasts until %v", until)
	}
	if _, delay := other.Since("k", t0.Add(2*time.Hour), t0.Add(2*time.Hour)); delay != 0 {
		t.Errorf("after a long pause a restart waits %v", delay)
	}
}

func TestObservation(t *testing.T) {
	c := scene{sandbox: "ready", names: "main more", containers: "main=running#2 main=1#1 old:more=0 more=unknown"}
	o, same := c.build().Observed, c.build().Observed
	if got := o.Latest("main"); got == nil || got.Metadata.Attempt != 2 {
		t.Errorf("the latest is %+v", got)
	}
	if got := o.LatestExited("main"); got == nil || got.Metadata.Attempt != 1 {
		t.Errorf("the latest that exited is %+v", got)
	}
	if got := o.Active("more"); got == nil || got.State != cri.ContainerUnknown {
		t.Errorf("the latest in use is %+v", got)
	}
	if got := o.Running(); len(got) != 2 || got[0].State != cri.ContainerRunning || got[1].State != cri.ContainerUnknown || !slices.Equal(o.IPs(), []string{"10.0.0.9"}) || !o.Equal(same) || o.Equal(decision.Observation{}) {
		t.Errorf("%+v of %v", got, o.IPs())
	}
	if got := (scene{sandbox: "dead", containers: "main=running"}).build().Observed; got.Sandbox() != nil || got.Active("main") != nil || got.IPs() != nil {
		t.Error("a dead sandbox is in use")
	}
	if got := (decision.Observation{}); got.Latest("x") != nil || got.Active("x") != nil || got.Sandbox() != nil || got.IPs() != nil {
		t.Error("something where there is nothing")
	}
}

// BenchmarkDecide decides about an unchanged pod with a sidecar and two containers.
func BenchmarkDecide(b *testing.B) {
	in := scene{sandbox: "ready", inits: "a s+", names: "main more", containers: "main=running more=running s=running a=0"}.build()
	b.ReportAllocs()
	for b.Loop() {
		if d := decision.Decide(in); !d.Actions.None() {
			b.Fatal(d.Actions)
		}
	}
}
