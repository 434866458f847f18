package cluster_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// TestDefaultStorageClass: of the classes that are marked as the default, lists show which is in effect.
func TestDefaultStorageClass(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		for _, name := range []string{"a", "b", "c"} {
			class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk"}
			if name != "c" {
				class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
			}
			if _, err := w.cs.StorageV1().StorageClasses().Create(w.ctx, class, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		for path, want := range map[string]string{
			"storageclasses":         "[a example.com/disk Delete Immediate false 3m] [b (default) example.com/disk Delete Immediate false 2m] [c example.com/disk Delete Immediate false 60s]",
			"storageclasses?limit=1": "[a (default) example.com/disk Delete Immediate false 3m]",
			"storageclasses/b":       "[b example.com/disk Delete Immediate false 2m]",
		} {
			data, err := w.cs.StorageV1().RESTClient().Get().RequestURI("/apis/storage.k8s.io/v1/"+path).
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(w.ctx).Raw()
			if err != nil {
				t.Fatal(err)
			}
			var shown metav1.Table
			if err := json.Unmarshal(data, &shown); err != nil {
				t.Fatal(err)
			}
			got := ""
			for i, row := range shown.Rows {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprint(row.Cells)
			}
			if got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
	})
}

// TestDefaultClasses: new claims and Ingresses get the default class as soon as there is one.
func TestDefaultClasses(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		named := func(name *string) string {
			if name == nil {
				return ""
			}
			return *name
		}
		made := func(name, wantStorage, wantIngress string) {
			t.Helper()
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			}}
			ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}}
			claim, err := w.cs.CoreV1().PersistentVolumeClaims("default").Create(w.ctx, claim, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ingress, err = w.cs.NetworkingV1().Ingresses("default").Create(w.ctx, ingress, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if storage, in := named(claim.Spec.StorageClassName), named(ingress.Spec.IngressClassName); storage != wantStorage || in != wantIngress {
				t.Errorf("%s has classes %q and %q", name, storage, in)
			}
		}
		made("before", "", "")
		meta := func(name, annotation string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: "true"}}
		}
		storage := &storagev1.StorageClass{ObjectMeta: meta("fast", "storageclass.kubernetes.io/is-default-class"), Provisioner: "example.com/disk"}
		if _, err := w.cs.StorageV1().StorageClasses().Create(w.ctx, storage, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		ingress := &networkingv1.IngressClass{ObjectMeta: meta("edge", "ingressclass.kubernetes.io/is-default-class"), Spec: networkingv1.IngressClassSpec{Controller: "example.com/edge"}}
		if _, err := w.cs.NetworkingV1().IngressClasses().Create(w.ctx, ingress, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		made("after", "fast", "edge")
	})
}
