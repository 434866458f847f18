package main

const help = `Tells what an API server would make of requests, without a server or a cluster.

  admit [flags] FILE...                           runs the cases in files
  admit show [-f STATE.yaml]... OBJECT.yaml       shows step by step what becomes of an object that is created

A file of cases has YAML documents. One describes the cluster; each other, with a name, is a case:

  state:                       # objects, or files that have them
  - policies.yaml
  - apiVersion: v1
    kind: Namespace
    metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: baseline}}
  disable: [ServiceAccount]    # default plugins to leave out
  enable: [AlwaysPullImages]   # others to add
  authorize: true              # whether users need roles for their requests; the default is false
  ---
  name: no host network
  as: {name: jane, groups: [developers]}    # the default is an administrator
  create:
    apiVersion: v1
    kind: Pod
    metadata: {name: web, namespace: shop}
    spec: {hostNetwork: true, containers: [{name: web, image: nginx}]}
  want:
    refused: {phase: admit, plugin: PodSecurity}

A case has one request:

  create: OBJECT
  update: OBJECT               # of the same name as one in the state
  delete: OBJECT               # apiVersion, kind and metadata are enough
  patch: {of: OBJECT, merge: PATCH}         # or json, strategic, apply

and may have

  subresource: status          # what of the object is written, or created for it: eviction, binding
  resource: v1/pods            # whose subresource that is, if the kind of the body does not tell
  query: {fieldValidation: Strict}
  dryRun: true                 # tells plugins that nothing will be stored
  keep: true                   # stores the result, for the cases that follow

What is left out of want is not compared, except that a request without refused must be admitted. admit --update writes want
into the cases that have none, and corrects what is compared in others; it leaves everything else as it is.

  refused: {phase, plugin, rule, code, reason, message}
  steps: what each step changed: "+ PATH: VALUE", "- PATH: VALUE", "~ PATH: BEFORE -> AFTER"
  warnings, audit: those for the client, and the annotations for the audit log
  costs: what expressions of policies cost, in upstream's units

The phases are authorize, decode, defaults, mutate, prepare, validate, admit, store. Webhooks in the state are called. No controller
runs: every namespace has the ServiceAccount default, and quotas without a status count the objects in the state.

Flags:
`
