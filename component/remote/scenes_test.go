package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers/attachdetach"
)

// scenes returns what TestCrashPoints plays, all at once.
func scenes() []scene {
	return []scene{
		{"rollout", rollout}, {"scaled", scaled}, {"services", services}, {"quota", quota}, {"deleted", deleted}, {"orphans", orphans},
		{"replicated", replicated}, {"everywhere", everywhere}, {"numbered", numbered}, {"jobs", jobs}, {"scheduled", scheduled},
		{"claims", claims}, {"attached", attached}, {"by-hand", byHand}, {"certificates", certificates},
	}
}

// rollout updates a deployment three times, once back, and keeps two old revisions.
func rollout(s *stage) {
	d := deployment("web", 3)
	d.Spec.RevisionHistoryLimit = new(int32(2))
	deployments := s.api.AppsV1().Deployments(s.namespace)
	_, err := deployments.Create(s.ctx, d, metav1.CreateOptions{})
	s.check(err)
	for _, image := range []string{"nginx:1", "nginx:2", "nginx", "nginx:3"} {
		s.wait()
		s.retry(func() error {
			now, err := deployments.Get(s.ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Spec.Template.Spec.Containers[0].Image = image
			_, err = deployments.Update(s.ctx, now, metav1.UpdateOptions{})
			return err
		})
	}
}

// scaled changes the number of replicas, and deletes another deployment.
func scaled(s *stage) {
	deployments := s.api.AppsV1().Deployments(s.namespace)
	for _, name := range []string{"web", "gone"} {
		_, err := deployments.Create(s.ctx, deployment(name, 2), metav1.CreateOptions{})
		s.check(err)
	}
	for _, replicas := range []int32{5, 1, 4} {
		s.wait()
		s.retry(func() error {
			scale, err := deployments.GetScale(s.ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			scale.Spec.Replicas = replicas
			_, err = deployments.UpdateScale(s.ctx, "web", scale, metav1.UpdateOptions{})
			return err
		})
	}
	s.check(deployments.Delete(s.ctx, "gone", metav1.DeleteOptions{}))
}

// services have endpoints that change, and a budget.
func services(s *stage) {
	_, err := s.api.AppsV1().Deployments(s.namespace).Create(s.ctx, deployment("web", 3), metav1.CreateOptions{})
	s.check(err)
	for _, name := range []string{"web", "gone"} {
		_, err := s.api.CoreV1().Services(s.namespace).Create(s.ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		s.check(err)
	}
	_, err = s.api.PolicyV1().PodDisruptionBudgets(s.namespace).Create(s.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}, metav1.CreateOptions{})
	s.check(err)
	s.wait()
	s.check(s.api.CoreV1().Pods(s.namespace).DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.check(s.api.CoreV1().Services(s.namespace).Delete(s.ctx, "gone", metav1.DeleteOptions{}))
	s.wait()
}

// quota is counted, and lets one of two pods in.
func quota(s *stage) {
	_, err := s.api.CoreV1().ResourceQuotas(s.namespace).Create(s.ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("3"), "count/configmaps": resource.MustParse("9")}},
	}, metav1.CreateOptions{})
	s.check(err)
	s.wait()
	_, err = s.api.AppsV1().Deployments(s.namespace).Create(s.ctx, deployment("web", 5), metav1.CreateOptions{})
	s.check(err)
	s.wait()
}

// deleted is a namespace that goes with what is in it.
func deleted(s *stage) {
	_, err := s.api.AppsV1().Deployments(s.namespace).Create(s.ctx, deployment("web", 3), metav1.CreateOptions{})
	s.check(err)
	s.wait()
	s.check(s.api.CoreV1().Namespaces().Delete(s.ctx, s.namespace, metav1.DeleteOptions{}))
	s.wait()
}

// orphans stay when their owner goes, and are adopted by the next one.
func orphans(s *stage) {
	deployments := s.api.AppsV1().Deployments(s.namespace)
	_, err := deployments.Create(s.ctx, deployment("web", 2), metav1.CreateOptions{})
	s.check(err)
	s.wait()
	s.check(deployments.Delete(s.ctx, "web", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	s.wait()
	_, err = deployments.Create(s.ctx, deployment("web", 2), metav1.CreateOptions{})
	s.check(err)
	s.wait()
}

// template returns pods that run until they are stopped.
func template(name string) corev1.PodTemplateSpec { return deployment(name, 0).Spec.Template }

// replicated is a ReplicationController that grows and shrinks.
func replicated(s *stage) {
	controllers := s.api.CoreV1().ReplicationControllers(s.namespace)
	t := template("old")
	_, err := controllers.Create(s.ctx, &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(2)), Template: &t},
	}, metav1.CreateOptions{})
	s.check(err)
	for _, replicas := range []int32{4, 1} {
		s.wait()
		s.retry(func() error {
			rc, err := controllers.Get(s.ctx, "old", metav1.GetOptions{})
			if err != nil {
				return err
			}
			rc.Spec.Replicas = &replicas
			_, err = controllers.Update(s.ctx, rc, metav1.UpdateOptions{})
			return err
		})
	}
}

// everywhere is a DaemonSet that is updated.
func everywhere(s *stage) {
	sets := s.api.AppsV1().DaemonSets(s.namespace)
	_, err := sets.Create(s.ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: template("agent")},
	}, metav1.CreateOptions{})
	s.check(err)
	s.wait()
	s.retry(func() error {
		set, err := sets.Get(s.ctx, "agent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		set.Spec.Template.Spec.Containers[0].Image = "nginx:2"
		_, err = sets.Update(s.ctx, set, metav1.UpdateOptions{})
		return err
	})
}

// numbered is a StatefulSet that grows, is updated and shrinks.
func numbered(s *stage) {
	sets := s.api.AppsV1().StatefulSets(s.namespace)
	_, err := sets.Create(s.ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db"),
		},
	}, metav1.CreateOptions{})
	s.check(err)
	for _, change := range []func(*appsv1.StatefulSet){
		func(set *appsv1.StatefulSet) { set.Spec.Replicas = new(int32(4)) },
		func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = "nginx:2" },
		func(set *appsv1.StatefulSet) { set.Spec.Replicas = new(int32(1)) },
	} {
		s.wait()
		s.retry(func() error {
			set, err := sets.Get(s.ctx, "db", metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(set)
			_, err = sets.Update(s.ctx, set, metav1.UpdateOptions{})
			return err
		})
	}
}

// jobs are suspended, resumed, deleted with their pods, and run until a deadline.
func jobs(s *stage) {
	all := s.api.BatchV1().Jobs(s.namespace)
	job := func(name string, change func(*batchv1.JobSpec)) {
		spec := batchv1.JobSpec{Parallelism: new(int32(2)), Template: template(name)}
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		change(&spec)
		_, err := all.Create(s.ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		s.check(err)
	}
	job("kept", func(*batchv1.JobSpec) {})
	job("gone", func(*batchv1.JobSpec) {})
	job("late", func(spec *batchv1.JobSpec) { spec.ActiveDeadlineSeconds = new(int64(60)) })
	job("short", func(spec *batchv1.JobSpec) {
		spec.ActiveDeadlineSeconds, spec.TTLSecondsAfterFinished = new(int64(30)), new(int32(60))
	})
	for _, suspended := range []bool{true, false} {
		s.wait()
		s.retry(func() error {
			now, err := all.Get(s.ctx, "kept", metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Spec.Suspend = &suspended
			_, err = all.Update(s.ctx, now, metav1.UpdateOptions{})
			return err
		})
	}
	s.check(all.Delete(s.ctx, "gone", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
}

// scheduled is a CronJob whose jobs replace one another.
func scheduled(s *stage) {
	t := template("tick")
	t.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	_, err := s.api.BatchV1().CronJobs(s.namespace).Create(s.ctx, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "tick"},
		Spec: batchv1.CronJobSpec{
			Schedule: "*/7 * * * *", ConcurrencyPolicy: batchv1.ReplaceConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: t}},
		},
	}, metav1.CreateOptions{})
	s.check(err)
	s.wait()
}

// claims are bound to volumes by size, one of which is released.
func claims(s *stage) {
	class := "by-hand"
	for name, size := range map[string]string{"small": "1Gi", "medium": "2Gi", "large": "3Gi"} {
		_, err := s.api.CoreV1().PersistentVolumes().Create(s.ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:               corev1.ResourceList{"storage": resource.MustParse(size)},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			},
		}, metav1.CreateOptions{})
		s.check(err)
	}
	s.wait() // a claim takes the best volume that has been seen
	all := s.api.CoreV1().PersistentVolumeClaims(s.namespace)
	for name, size := range map[string]string{"a": "1Gi", "b": "2Gi", "c": "9Gi"} {
		_, err := all.Create(s.ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
			},
		}, metav1.CreateOptions{})
		s.check(err)
		s.wait()
	}
	s.check(all.Delete(s.ctx, "b", metav1.DeleteOptions{}))
	s.wait()
}

// attached volumes are needed by pods on a node without a kubelet, one of which goes.
func attached(s *stage) {
	const driver, node = "disk.example.com", "far"
	_, err := s.api.CoreV1().Nodes().Create(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	s.check(err)
	for _, name := range []string{"stays", "goes"} {
		size := corev1.ResourceList{"storage": resource.MustParse("1Gi")}
		_, err := s.api.CoreV1().PersistentVolumes().Create(s.ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: driver, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size,
				ClaimRef:               &corev1.ObjectReference{Namespace: s.namespace, Name: name},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
			},
		}, metav1.CreateOptions{})
		s.check(err)
		class := driver
		_, err = s.api.CoreV1().PersistentVolumeClaims(s.namespace).Create(s.ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: name,
			},
		}, metav1.CreateOptions{})
		s.check(err)
		_, err = s.api.CoreV1().Pods(s.namespace).Create(s.ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName: node, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "c", Image: "nginx"}},
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
				}}},
			},
		}, metav1.CreateOptions{})
		s.check(err)
	}
	s.wait()
	all := s.api.StorageV1().VolumeAttachments()
	for _, name := range []string{"stays", "goes"} { // what the driver's attacher does
		s.retry(func() error {
			va, err := all.Get(s.ctx, attachdetach.AttachmentName(name, driver, node), metav1.GetOptions{})
			if err != nil {
				return err
			}
			va.Status.Attached = true
			_, err = all.UpdateStatus(s.ctx, va, metav1.UpdateOptions{})
			return err
		})
	}
	s.wait()
	s.check(s.api.CoreV1().Pods(s.namespace).Delete(s.ctx, "goes", *metav1.NewDeleteOptions(0)))
	s.wait()
}

// byHand has Endpoints that a user writes for a service without a selector.
func byHand(s *stage) {
	_, err := s.api.CoreV1().Services(s.namespace).Create(s.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	s.check(err)
	all := s.api.CoreV1().Endpoints(s.namespace)
	there, err := all.Create(s.ctx, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "outside"},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Port: 80}}}},
	}, metav1.CreateOptions{})
	s.check(err)
	s.wait()
	there.Subsets[0].Addresses[0].IP = "192.0.2.2"
	_, err = all.Update(s.ctx, there, metav1.UpdateOptions{})
	s.check(err)
	s.wait()
}

// certificates are asked for by a node, and approved.
func certificates(s *stage) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.check(err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:new"},
	}, key)
	s.check(err)
	_, err = s.api.CertificatesV1().CertificateSigningRequests().Create(s.ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "new"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	s.check(err)
	s.wait()
}
