package etcd_test

import (
	"context"
	"fmt"
	"log"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// A store in an etcd that speaks TLS, next to what kube-apiserver keeps there.
func Example() {
	ctx := context.Background()
	store, err := etcd.Open(ctx, etcd.Config{
		Endpoints: []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379"},
		CAFile:    "/etc/kubernetes/pki/etcd/ca.crt",
		CertFile:  "/etc/kubernetes/pki/apiserver-etcd-client.crt",
		KeyFile:   "/etc/kubernetes/pki/apiserver-etcd-client.key",
	}, etcd.Options{Trim: "/registry/", Prefix: "/registry/"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Ready(ctx); err != nil {
		log.Print(err)
		return
	}
	page, err := store.List(ctx, "/registry/pods/", storage.ListOptions{Limit: 500})
	if err != nil {
		log.Print(err)
		return
	}
	for _, record := range page.Records {
		fmt.Println(record.Key, record.Revision)
	}
}
