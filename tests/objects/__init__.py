"""Stores on servers of object storage other than S3, and on HDFS."""
