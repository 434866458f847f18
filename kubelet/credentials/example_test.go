package credentials_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/credentials"
)

// An image is pulled with the pod's secret for its registry.
func Example() {
	source := credentials.SecretsFunc(func(context.Context, string, string) (*corev1.Secret, error) {
		return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths": {"*.example": {"username": "reader", "password": "..."}}}`),
		}}, nil
	})
	keyring, err := credentials.New(source, credentials.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}}}
	list, err := keyring.For(context.Background(), pod, "registry.example/team/app:v1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(list), list[0].Username)
	// Output: 1 reader
}
