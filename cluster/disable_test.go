package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/pki"
)

// TestDisable leaves out one component after the other: its work is not done, and the rest still works.
func TestDisable(t *testing.T) {
	tests := map[string]func(w *world){
		"scheduler":                                                      withoutScheduler,
		"deployment-controller":                                          withoutDeployment,
		"replicaset-controller":                                          withoutReplicaSet,
		"statefulset-controller":                                         withoutStatefulSet,
		"cronjob-controller":                                             withoutCronJob,
		"replicationcontroller-controller":                               withoutReplicationController,
		"daemonset-controller":                                           withoutDaemonSet,
		"endpoints-controller":                                           withoutEndpoints,
		"endpointslice-controller":                                       withoutEndpointSlice,
		"endpointslice-mirroring-controller":                             withoutEndpointSliceMirroring,
		"service-cidr-controller":                                        withoutServiceCIDRs,
		"garbage-collector-controller":                                   withoutGarbageCollector,
		"namespace-controller":                                           withoutNamespace,
		"serviceaccount-controller":                                      withoutServiceAccount,
		"serviceaccount-token-controller":                                withoutAccountTokens,
		"legacy-serviceaccount-token-cleaner-controller":                 withoutTokenCleaner,
		"root-ca-certificate-publisher-controller":                       withoutRootCA,
		"clusterrole-aggregation-controller":                             withoutClusterRoleAggregation,
		"disruption-controller":                                          withoutDisruption,
		"node-lifecycle-controller":                                      withoutNodeLifecycle,
		"taint-eviction-controller":                                      withoutTaintEviction,
		"pod-garbage-collector-controller":                               withoutPodGarbageCollector,
		"resourcequota-controller":                                       withoutResourceQuota,
		"ttl-controller":                                                 withoutTTL,
		"ephemeral-volume-controller":                                    withoutEphemeralVolume,
		"resourceclaim-controller":                                       withoutResourceClaim,
		"device-taint-eviction-controller":                               withoutDeviceTaintEviction,
		"volumeattributesclass-protection-controller":                    withoutClassProtection,
		"certificatesigningrequest-signing-controller":                   withoutCSRSigning,
		"certificatesigningrequest-approving-controller":                 withoutCSRApproving,
		"certificatesigningrequest-cleaner-controller":                   withoutCSRCleaner,
		"podcertificaterequest-cleaner-controller":                       withoutPodCertificateRequestCleaner,
		"kube-apiserver-serving-clustertrustbundle-publisher-controller": withoutClusterTrustBundlePublisher,
		"horizontal-pod-autoscaler-controller":                           withoutHorizontalPodAutoscaler,
		"persistentvolume-binder-controller":                             withoutPVBinder,
		"persistentvolume-attach-detach-controller":                      withoutAttachDetach,
		"persistentvolume-expander-controller":                           withoutVolumeExpand,
		"persistentvolumeclaim-protection-controller":                    withoutPVCProtection,
		"persistentvolume-protection-controller":                         withoutPVProtection,
		"job-controller":                                                 withoutJob,
		"ttl-after-finished-controller":                                  withoutTTLAfterFinished,
		"storage-version-migrator-controller":                            withoutStorageVersionMigrator,
	}
	authority, err := pki.New("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range component.Names(cluster.DefaultComponents()) {
		t.Run(name, func(t *testing.T) {
			o := nodes(2)
			o.Disable = []string{name}
			o.Server.RootCA, o.Server.Signer = authority.PEM(), authority
			inBubble(t, o, func(t *testing.T, w *world) {
				_, err := w.cs.CoreV1().Services("default").Create(w.ctx, serviceOf("web"), metav1.CreateOptions{})
				w.check(err)
				w.create(deploymentOf("web", 2))
				time.Sleep(10 * time.Second)
				look, ok := tests[name]
				if !ok {
					w.t.Fatal("no test says what is not done without it")
				}
				look(w)
			})
		})
	}
}

// Checks of what is missing without a component, after ten seconds with a deployment and a service.

func withoutScheduler(w *world) {
	for _, p := range w.listed("web") {
		if p.Spec.NodeName != "" || p.Status.Phase != corev1.PodPending {
			w.t.Errorf("%s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
	}
	bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: w.listed("web")[0].Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
	w.check(w.pods.Bind(w.ctx, bind, metav1.CreateOptions{}))
	time.Sleep(10 * time.Second)
	if p := w.listed("web")[0]; p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != "node-1" {
		w.t.Errorf("bound by hand it is %s on %q", p.Status.Phase, p.Spec.NodeName)
	}
}

func withoutDeployment(w *world) {
	if d := w.deployment("web"); d.Status.ObservedGeneration != 0 || len(w.replicaSets("web")) > 0 {
		w.t.Errorf("somebody saw to the deployment: %+v", d.Status)
	}
}

func withoutReplicaSet(w *world) {
	if sets := w.replicaSets("web"); len(sets) != 1 || sets[0].Status.Replicas != 0 || len(w.listed("web")) > 0 {
		w.t.Errorf("somebody saw to the replica set: %+v", sets)
	}
}

func withoutCronJob(w *world) {
	w.cronJob("tick", "* * * * *")
	time.Sleep(10 * time.Minute)
	if jobs := w.jobs(); len(jobs) > 0 {
		w.t.Errorf("somebody started %v", jobs)
	}
}

func withoutReplicationController(w *world) {
	w.createRC(rcOf("old", 2))
	time.Sleep(10 * time.Second)
	if rc := w.rc("old"); rc.Status.ObservedGeneration != 0 || len(w.listed("old")) > 0 {
		w.t.Errorf("somebody saw to the replication controller: %+v", rc.Status)
	}
}

func withoutDaemonSet(w *world) {
	w.createDaemonSet(daemonSetOf("log"))
	time.Sleep(10 * time.Second)
	if set := w.daemonSet("log"); set.Status.ObservedGeneration != 0 || len(w.listed("log")) > 0 {
		w.t.Errorf("somebody saw to the daemon set: %+v", set.Status)
	}
}

func withoutEndpoints(w *world) {
	if _, err := w.cs.CoreV1().Endpoints("default").Get(w.ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("endpoints: %v", err)
	}
}

func withoutEndpointSlice(w *world) {
	l, err := w.cs.DiscoveryV1().EndpointSlices("default").List(w.ctx, metav1.ListOptions{})
	if err != nil || len(l.Items) > 0 {
		w.t.Errorf("endpoint slices: %v %v", l.Items, err)
	}
}

func withoutEndpointSliceMirroring(w *world) {
	w.customEndpoints("database", "192.0.2.1")
	time.Sleep(time.Minute)
	if slices := w.slicesOf("database"); len(slices) > 0 {
		w.t.Errorf("somebody mirrored endpoints: %v", slices)
	}
}

func withoutGarbageCollector(w *world) {
	w.check(w.deployments.Delete(w.ctx, "web", metav1.DeleteOptions{}))
	time.Sleep(time.Minute)
	w.running("web", 2, "")
	if len(w.replicaSets("web")) != 1 {
		w.t.Error("somebody collected the replica set")
	}
}

func withoutNamespace(w *world) {
	_, err := w.cs.CoreV1().Namespaces().Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	w.check(err)
	w.check(w.cs.CoreV1().Namespaces().Delete(w.ctx, "shop", metav1.DeleteOptions{}))
	time.Sleep(time.Minute)
	ns, err := w.cs.CoreV1().Namespaces().Get(w.ctx, "shop", metav1.GetOptions{})
	w.check(err)
	if ns.Status.Phase != corev1.NamespaceTerminating || len(ns.Status.Conditions) > 0 {
		w.t.Errorf("the namespace is %+v", ns.Status)
	}
	w.running("web", 2, "")
}

func withoutServiceAccount(w *world) {
	if _, err := w.cs.CoreV1().ServiceAccounts("default").Get(w.ctx, "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("the default account: %v", err)
	}
	if _, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) || len(w.listed("web")) > 0 {
		w.t.Errorf("a pod without its account: %v", err)
	}
}

func withoutRootCA(w *world) {
	if _, err := w.cs.CoreV1().ConfigMaps("default").Get(w.ctx, "kube-root-ca.crt", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("the certificate: %v", err)
	}
	w.running("web", 2, "")
}

func withoutClusterRoleAggregation(w *world) {
	_, err := w.cs.RbacV1().ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "carts", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"shop.example.com"}, Resources: []string{"carts"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(10 * time.Second)
	edit, err := w.cs.RbacV1().ClusterRoles().Get(w.ctx, "edit", metav1.GetOptions{})
	w.check(err)
	if slices.ContainsFunc(edit.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "carts") }) {
		w.t.Error("somebody aggregated")
	}
}

func withoutDisruption(w *world) {
	one := intstr.FromInt32(1)
	_, err := w.cs.PolicyV1().PodDisruptionBudgets("default").Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(time.Minute)
	budget, err := w.cs.PolicyV1().PodDisruptionBudgets("default").Get(w.ctx, "web", metav1.GetOptions{})
	w.check(err)
	if budget.Status.ObservedGeneration != 0 || len(budget.Status.Conditions) > 0 {
		w.t.Errorf("somebody saw to the budget: %+v", budget.Status)
	}
}

func withoutNodeLifecycle(w *world) {
	w.silence("node-0", time.Hour)
	n, err := w.cs.CoreV1().Nodes().Get(w.ctx, "node-0", metav1.GetOptions{})
	w.check(err)
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			w.t.Errorf("somebody marked the silent node: %+v", condition)
		}
	}
}

func withoutTaintEviction(w *world) {
	w.silence("node-0", time.Hour)
	for _, p := range w.listed("web") {
		if p.DeletionTimestamp != nil {
			w.t.Errorf("somebody evicted %s", p.Name)
		}
	}
}

func withoutPodGarbageCollector(w *world) {
	node, err := w.c.Node("node-0")
	w.check(err)
	node.Stop()
	w.check(w.cs.CoreV1().Nodes().Delete(w.ctx, "node-0", metav1.DeleteOptions{}))
	time.Sleep(time.Hour)
	if n := len(w.listed("web")); n != 2 {
		w.t.Errorf("%d pods are left of 2", n)
	}
}

func withoutHorizontalPodAutoscaler(w *world) {
	_, err := w.cs.AutoscalingV2().HorizontalPodAutoscalers("default").Create(w.ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 1,
		},
	}, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(time.Minute)
	if n := *w.deployment("web").Spec.Replicas; n != 2 {
		w.t.Errorf("scaled to %d", n)
	}
}

func withoutStorageVersionMigrator(w *world) {
	w.migrate("m", "", "configmaps")
	time.Sleep(10 * time.Minute)
	if m := w.migration("m"); len(m.Status.Conditions) > 0 || m.Status.ResourceVersion != "" {
		w.t.Errorf("somebody migrated: %+v", m.Status)
	}
}

// silence stops a node's kubelet for a while.
func (w *world) silence(node string, d time.Duration) {
	w.t.Helper()
	n, err := w.c.Node(node)
	w.check(err)
	n.Stop()
	time.Sleep(d)
}

// TestDisableAll: an API server with its policy and nothing else is a cluster too.
func TestDisableAll(t *testing.T) {
	inBubble(t, cluster.Options{Components: []cluster.Component{}, Disable: []string{serviceaccount.Name}}, func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(24 * time.Hour)
		pod, err := w.pods.Get(w.ctx, "web", metav1.GetOptions{})
		w.check(err)
		if pod.Status.Phase != corev1.PodPending || pod.ResourceVersion == "" {
			t.Errorf("after a day: %+v", pod.Status)
		}
		l, err := w.cs.CoreV1().Events("").List(w.ctx, metav1.ListOptions{})
		if err != nil || len(l.Items) > 0 {
			t.Errorf("events: %v %v", l.Items, err)
		}
	})
}

// TestComponents: the names are upstream's, and unique.
func TestComponents(t *testing.T) {
	names := component.Names(cluster.DefaultComponents())
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	last := len(names) - 1
	if len(sorted) != len(names) || names[last] != "scheduler" {
		t.Errorf("components are %v", names)
	}
	for _, name := range names[:last] {
		if !strings.HasSuffix(name, "-controller") {
			t.Errorf("%s is no name of upstream's", name)
		}
	}
}

func withoutJob(w *world) {
	job, err := w.cs.BatchV1().Jobs("default").Create(w.ctx, jobOf("work", 1), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(10 * time.Second)
	job, err = w.cs.BatchV1().Jobs("default").Get(w.ctx, job.Name, metav1.GetOptions{})
	w.check(err)
	if job.Status.StartTime != nil {
		w.t.Error("the job has started")
	}
}

func withoutTTLAfterFinished(w *world) {
	job := jobOf("work", 0)
	job.Spec.TTLSecondsAfterFinished = new(int32(0))
	_, err := w.cs.BatchV1().Jobs("default").Create(w.ctx, job, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(10 * time.Second)
	job, err = w.cs.BatchV1().Jobs("default").Get(w.ctx, "work", metav1.GetOptions{})
	w.check(err)
	if job.Status.CompletionTime == nil || job.DeletionTimestamp != nil {
		w.t.Errorf("the job ended at %v and is being deleted at %v", job.Status.CompletionTime, job.DeletionTimestamp)
	}
}
