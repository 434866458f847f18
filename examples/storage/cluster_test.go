package main

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
)

// A cluster is backed up, lost, and comes back from the file.
func TestClusterComesBack(t *testing.T) {
	ctx := t.Context()
	program, err := clusterprocess.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "backup")
	start := func() (*clusterprocess.Process, kubernetes.Interface) {
		process, err := program.Start(ctx, data)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = process.Kill() }) // where the test did not end it
		config, err := process.Config()
		if err != nil {
			t.Fatal(err)
		}
		api, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return process, api
	}
	process, api := start()
	made, err := api.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "colours"}, Data: map[string]string{"sky": "blue"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	store := "wal:" + filepath.Join(data, "store")
	fail(t, "end the cluster first", "snapshot", store, file)
	if err := process.Interrupt(); err != nil {
		t.Fatal(err)
	}
	succeed(t, "MiB of revision", "snapshot", store, file)
	if err := os.RemoveAll(filepath.Join(data, "store")); err != nil {
		t.Fatal(err)
	}
	succeed(t, "restored and compared", "restore", file, store)

	process, api = start()
	found, err := api.CoreV1().ConfigMaps("default").Get(ctx, "colours", metav1.GetOptions{})
	if err != nil || found.UID != made.UID || found.Data["sky"] != "blue" {
		t.Errorf("the restored cluster has %+v, %v", found, err)
	}
	// Who followed the old cluster is told to list again.
	_, err = api.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err == nil {
		t.Error("the restored cluster answers a list at a revision of the old one")
	}
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
}
