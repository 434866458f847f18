// Initializer has two initializers: one of secrets, which rejects those that are too short before anybody has seen them, and
// one of pods, which injects a sidecar into those that ask for it before they are scheduled. The program starts a control
// plane with both and creates some. With a kubeconfig file as its argument it serves a cluster that runs instead, such as
//
//	cluster --enable-admission-plugins Initializers
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/initializers"
	"github.com/keelson-dev/keelson/lifecycle"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) > 0 {
		access, err := kubeconfig.Load(kubeconfig.Options{Path: args[0]})
		if err != nil {
			return err
		}
		if err := configure(ctx, access.Config); err != nil {
			return err
		}
		return serve(ctx, access.Config)
	}
	c, err := cluster.Start(ctx, cluster.Options{Extensions: []cluster.Extension{initializers.Extension()}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := configure(ctx, c.Config()); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- serve(serving, c.Config()) }()
	defer func() { stop(); err = errors.Join(err, <-done) }()
	return create(ctx, c.Config())
}

// serve runs the initializers.
func serve(ctx context.Context, config *rest.Config) error {
	secrets, err := New(config, secretsName, corev1.SchemeGroupVersion.WithResource("secrets"), longEnough)
	if err != nil {
		return err
	}
	pods, err := New(config, sidecarName, corev1.SchemeGroupVersion.WithResource("pods"), withSidecar)
	if err != nil {
		return err
	}
	return lifecycle.Group(secrets, pods).Run(ctx)
}

const configuration = `{
	"apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "InitializerConfiguration", "metadata": {"name": "example"},
	"initializers": [
		{"name": "` + secretsName + `", "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}]},
		{"name": "` + sidecarName + `", "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}
	]
}`

// configure has the server wait for the initializers.
func configure(ctx context.Context, config *rest.Config) error {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	err = c.CoreV1().RESTClient().Post().AbsPath("/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations").
		Body([]byte(configuration)).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// create creates two secrets and two pods.
func create(ctx context.Context, config *rest.Config) error {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, password := range []string{"correct horse battery staple", "1234"} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "login-"}, StringData: map[string]string{"password": password}}
		_, err := c.CoreV1().Secrets("default").Create(ctx, s, metav1.CreateOptions{})
		fmt.Printf("%q: %s\n", password, verdict(err))
	}
	for _, name := range []string{"plain", "meshed"} {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{sidecarLabel: fmt.Sprint(name == "meshed")}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/app:1"}}},
		}
		p, err := c.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		fmt.Printf("pod %s:", name)
		for _, container := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			fmt.Print(" ", container.Name)
		}
		fmt.Println()
	}
	return nil
}

func verdict(err error) string {
	if err == nil {
		return "created"
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil && len(status.ErrStatus.Details.Causes) > 0 {
		cause := status.ErrStatus.Details.Causes[0]
		return fmt.Sprintf("%s, %s", cause.Field, cause.Message)
	}
	return err.Error()
}
