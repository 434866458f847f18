package remote_test

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// scenes returns what TestCrashPoints plays, all at once.
func scenes() []scene {
	return []scene{
		{"rollout", rollout}, {"scaled", scaled}, {"services", services}, {"quota", quota}, {"deleted", deleted}, {"orphans", orphans},
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
