package podcertificates_test

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/volume/podcertificates"
)

// server has a service account, and a signer that answers at once.
type server struct {
	requests map[string]*certificatesv1.PodCertificateRequest
}

func (s server) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	if r, ok := s.requests[t.Name]; ok {
		return r, nil
	}
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: t.Name, UID: "3"}}, nil
}

func (s server) Create(_ context.Context, _ client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	r := obj.(*certificatesv1.PodCertificateRequest)
	r.Name = r.GenerateName + "1"
	fmt.Println("a pod of", r.Spec.ServiceAccountName, "on", r.Spec.NodeName, "asks", r.Spec.SignerName)
	r.Status.Conditions = []metav1.Condition{{Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue}}
	r.Status.CertificateChain = "comment\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	r.Status.BeginRefreshAt = &metav1.Time{Time: time.Now().Add(time.Hour)}
	s.requests[r.Name] = r
	return r, nil
}

// A pod gets a certificate from the signer that its volume names.
func Example() {
	node := func() (string, types.UID) { return "node-1", "1" }
	c := podcertificates.New(server{map[string]*certificatesv1.PodCertificateRequest{}}, node, podcertificates.Options{})
	bundle, err := c.Certificate(context.Background(), podcertificates.Request{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "2"}, Spec: corev1.PodSpec{ServiceAccountName: "web"},
		},
		Volume: "tls", Projection: &corev1.PodCertificateProjection{SignerName: "example.com/web", KeyType: "ED25519"},
	})
	fmt.Printf("%s%v, replaced in an hour: %t\n", bundle.Chain, err, time.Until(bundle.Next) > 59*time.Minute)
	// Output:
	// a pod of web on node-1 asks example.com/web
	// -----BEGIN CERTIFICATE-----
	// AAAA
	// -----END CERTIFICATE-----
	// <nil>, replaced in an hour: true
}
