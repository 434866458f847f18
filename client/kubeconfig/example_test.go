package kubeconfig_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-dev/keelson/client/kubeconfig"
)

func ExampleAdd() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "config")
	err = kubeconfig.Add(context.Background(), path, kubeconfig.Entry{
		Name: "keelson", User: "admin", Server: "https://127.0.0.1:6443", Token: "s3cr3t",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := os.ReadFile(path)
	fmt.Print(string(data))
	fmt.Println(err)
	// Output:
	// apiVersion: v1
	// clusters:
	// - cluster:
	//     server: https://127.0.0.1:6443
	//   name: keelson
	// contexts:
	// - context:
	//     cluster: keelson
	//     user: admin
	//   name: keelson
	// current-context: keelson
	// kind: Config
	// users:
	// - name: admin
	//   user:
	//     token: s3cr3t
	// <nil>
}

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "config")
	if err := kubeconfig.Add(context.Background(), path, kubeconfig.Entry{Name: "keelson", Server: "https://127.0.0.1:6443", Token: "s3cr3t"}); err != nil {
		fmt.Println(err)
		return
	}
	// In a program, the environment is kubeconfig.EnvironmentOf(os.Getenv).
	access, err := kubeconfig.Load(kubeconfig.Options{
		Environment: kubeconfig.Environment{Kubeconfig: path},
		Overrides:   clientcmd.ConfigOverrides{Context: api.Context{Namespace: "shop"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(access.Config.Host, access.Namespace)
	// Output: https://127.0.0.1:6443 shop
}
