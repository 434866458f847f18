package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
)

// ask makes a running cluster write a snapshot, and returns the file.
func ask(t *testing.T, process *clusterprocess.Process, dir string) string {
	t.Helper()
	if err := process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(process.Output(), "snapshot of ") {
		if t.Context().Err() != nil {
			t.Fatal(process.Output())
		}
		time.Sleep(10 * time.Millisecond)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	return files[0]
}

// A cluster is backed up, lost, and restored from the file.
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
		t.Cleanup(func() { _ = process.Kill() }) // if the test did not end it
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
	online := ask(t, process, filepath.Join(data, "snapshots"))
	_, err = api.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "colours-late"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Interrupt(); err != nil {
		t.Fatal(err)
	}
	succeed(t, "MiB of revision", "snapshot", store, file)
	elsewhere := "wal:" + filepath.Join(dir, "elsewhere")
	succeed(t, "restored and compared", "restore", online, elsewhere)
	fail(t, "colours-late", "verify", store, elsewhere)
	if err := os.RemoveAll(filepath.Join(data, "store")); err != nil {
		t.Fatal(err)
	}
	succeed(t, "restored and compared", "restore", file, store)

	process, api = start()
	found, err := api.CoreV1().ConfigMaps("default").Get(ctx, "colours", metav1.GetOptions{})
	if err != nil || found.UID != made.UID || found.Data["sky"] != "blue" {
		t.Errorf("the restored cluster has %+v, %v", found, err)
	}
	// A client that followed the old cluster has to list again.
	_, err = api.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err == nil {
		t.Error("the restored cluster answers a list at a revision of the old one")
	}
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
}
